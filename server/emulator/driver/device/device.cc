#include "server/emulator/driver/device/device.h"

#include "server/emulator/driver/base/options.h"

namespace tessera::emulator {

Device::Device(int number, uint64_t total_bytes)
    : number_(number),
      total_bytes_(total_bytes),
      usage_(GetOptions().usage->devices[GetOptions().devices[static_cast<size_t>(number)]]) {}

bool Device::Charge(uint64_t bytes) {
  uint64_t used = used_bytes_.load();
  do {
    if (bytes > total_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  usage_.used_bytes.fetch_add(bytes);
  return true;
}

void Device::Discharge(uint64_t bytes) {
  used_bytes_.fetch_sub(bytes);
  usage_.used_bytes.fetch_sub(bytes);
}

}  // namespace tessera::emulator
