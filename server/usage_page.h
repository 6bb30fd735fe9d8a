// What a process's emulated devices are used for at this moment: written by the emulator, read by whoever gave it the page.
//
// The emulator maps the page from the descriptor that TESSERA_EMULATOR_USAGE_FD names, when it is set. Every element
// belongs to the device of that number among all of the emulated machine's (CUDA_VISIBLE_DEVICES does not matter).
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

inline constexpr int kUsageDevicesMax = 8;

struct UsagePage {
  struct Device {
    std::atomic<uint64_t> used_bytes;
    std::atomic<uint64_t> busy_ns;  // total time of the kernels that have ended; those of several streams add up
    std::atomic<uint64_t> running;  // kernels that have not
  };
  Device devices[kUsageDevicesMax];
};
static_assert(sizeof(UsagePage) <= 4096);

}  // namespace tessera
