// What the environment says about the emulated machine. Read once, at the first use.
//
// - TESSERA_EMULATOR_DEVICES: number of devices, 1 to 8 (1)
// - TESSERA_EMULATOR_MEMORY_MIB: memory of each device (4096)
// - TESSERA_EMULATOR_CONTEXT_MIB: what each context takes of it (0; some 500 on a real GPU)
// - TESSERA_EMULATOR_NUMA: how many devices each NUMA node of the machine has, from device 0 on (0: no device says its node)
// - TESSERA_EMULATOR_MACHINE: 1 to 65535: which of several emulated machines this is, so that no two devices have one UUID (0)
// - TESSERA_EMULATOR_SEED: seed of delays and of kernel scheduling (1)
// - TESSERA_EMULATOR_DELAY_US: longest random delay before an operation of a stream, 0 = none (50)
// - TESSERA_EMULATOR_SLOW: MB/s of each copy and each set; each of them and each kernel takes 1 ms or more of its stream's time
//   before it touches memory (core/pace.h). 0 = none takes time of its own (0)
// - TESSERA_EMULATOR_QUEUE: commands that wait in a stream before the call that gives it one more blocks (1024)
// - TESSERA_EMULATOR_PAGE_FD: descriptor of the page that this process shares its devices by (server/device_page.h), and
//   TESSERA_EMULATOR_PAGE_SLOT, its slot there
// - CUDA_MODULE_LOADING: EAGER or LAZY, as the driver reads it
// - CUDA_VISIBLE_DEVICES: which devices, and in which order (protocol/base/visible_devices.h). One that is named twice stands
// there
//   twice: cuInit refuses it
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "server/device_page.h"

namespace tessera::emulator {

inline constexpr uint64_t kSessionMax = 7;

struct Options {
  std::vector<int> devices = {0};  // those that are visible, in the order of their ordinals
  uint64_t memory_bytes = 4096ull << 20;
  uint64_t context_bytes = 0;
  uint64_t devices_of_numa = 0;
  uint64_t machine = 0;
  uint64_t seed = 1;
  uint64_t delay_us = 50;
  uint64_t slow_mb_per_s = 0;  // 0: nothing is slowed
  uint64_t queue_commands = 1024;
  uint64_t session = 0;  // which of its client's sessions this is, up to kSessionMax: each has addresses of its own
  bool eager_loading = false;
  DevicePage* page = nullptr;  // never null once read: one of its own without TESSERA_EMULATOR_PAGE_FD
  uint32_t page_slot = 0;
};

inline constexpr int kMaxDevices = kEmulatedDevicesMax;

const Options& GetOptions();

// Of the UUID of device `number`: "tessera emula", the machine's two bytes or "to", the number.
std::array<char, 16> UuidOf(uint64_t machine, int number);

// What CUDA_VISIBLE_DEVICES selects of `count` devices; the last one may be there before. Pure.
std::vector<int> SelectDevices(std::string_view list, int count, uint64_t machine = 0);

}  // namespace tessera::emulator
