#include "client-stub/memory/flag_watch.h"

#include <utility>

#include "client-stub/process/guest_thread.h"

namespace tessera {

FlagWatch::FlagWatch(std::function<void()> look)
    : looks_([](std::function<void()> body) { return StartGuestThread("tessera-flags", std::move(body)); },
             [this] { return begun_.load() > ended_.load(); }, std::move(look)) {}

void FlagWatch::Began() {
  begun_.fetch_add(1);
  looks_.Wake();
}

void FlagWatch::Ended(uint64_t count) {
  uint64_t before = ended_.load();
  while (before < count && !ended_.compare_exchange_weak(before, count)) {
  }
}

}  // namespace tessera
