#include "server/worker/threads/thread_contexts.h"

namespace tessera {
namespace {

uint64_t NextSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

ThreadContexts::ThreadContexts(const DriverTable& driver) : driver_(driver), serial_(NextSerial()) {}

}  // namespace tessera
