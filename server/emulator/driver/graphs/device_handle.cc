#include "server/emulator/driver/graphs/device_handle.h"

#include <mutex>
#include <set>

namespace tessera::emulator {
namespace {

// As far apart as driver 580 has them, in a part of the address space that it uses for them.
constexpr uint64_t kFirst = 0x7F7576C74300;
constexpr uint64_t kStep = 0xC0;

std::mutex& TakenMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::set<uint64_t>& Taken() {
  static auto* taken = new std::set<uint64_t>;
  return *taken;
}

}  // namespace

DeviceHandle::DeviceHandle() {
  std::lock_guard lock(TakenMutex());
  value_ = kFirst;
  while (!Taken().insert(value_).second) value_ += kStep;
}

DeviceHandle::~DeviceHandle() {
  std::lock_guard lock(TakenMutex());
  Taken().erase(value_);
}

}  // namespace tessera::emulator
