#include "server/emulator/driver/device/device.h"

#include "server/emulator/driver/base/options.h"

namespace tessera::emulator {
namespace {

DevicePage::Device& PageOf(int number) { return GetOptions().page->devices[GetOptions().devices[static_cast<size_t>(number)]]; }

}  // namespace

Device::Device(int number, uint64_t total_bytes)
    : number_(number),
      total_bytes_(total_bytes),
      memory_(PageOf(number), GetOptions().page->slots_end, GetOptions().page_slot, total_bytes),
      time_(PageOf(number), GetOptions().page->slots_end, GetOptions().page_slot) {}

}  // namespace tessera::emulator
