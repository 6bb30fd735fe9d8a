// What the environment says about the emulated machine. Read once, at the first use.
//
//   TESSERA_EMULATOR_DEVICES     number of devices, 1 to 8 (1)
//   TESSERA_EMULATOR_MEMORY_MIB  memory of each device (4096)
//   TESSERA_EMULATOR_SEED        seed of delays and of kernel scheduling (1)
//   TESSERA_EMULATOR_DELAY_US    longest random delay before an operation of a stream, 0 = none (50)
//   CUDA_MODULE_LOADING          EAGER or LAZY, as the driver reads it
#pragma once

#include <cstdint>

namespace tessera::emulator {

struct Options {
  int device_count = 1;
  uint64_t memory_bytes = 4096ull << 20;
  uint64_t seed = 1;
  uint64_t delay_us = 50;
  bool eager_loading = false;
};

inline constexpr int kMaxDevices = 8;

const Options& GetOptions();

}  // namespace tessera::emulator
