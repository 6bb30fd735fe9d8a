#include "server/emulator/driver/graphs/device_handle.h"

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {
namespace {

// As far apart as driver 580 has them, in a part of the address space that it uses for them.
constexpr uint64_t kFirst = 0x7F7576C74300;
constexpr uint64_t kStep = 0xC0;

}  // namespace

DeviceHandle::DeviceHandle() {
  Driver& driver = GetDriver();
  std::lock_guard lock(driver.device_handles_mutex);
  value_ = kFirst;
  while (!driver.device_handles.insert(value_).second) value_ += kStep;
}

DeviceHandle::~DeviceHandle() {
  Driver& driver = GetDriver();
  std::lock_guard lock(driver.device_handles_mutex);
  driver.device_handles.erase(value_);
}

}  // namespace tessera::emulator
