// One emulated machine as all the processes of one server use it: the memory of its devices, and their time.
//
// tesserad makes one page for its workers (a sealed memory file) and names each a slot of it: TESSERA_EMULATOR_PAGE_FD and
// TESSERA_EMULATOR_PAGE_SLOT. A driver without them has a page of its own, in slot 0. A device's number is that among all of the
// emulated machine's (CUDA_VISIBLE_DEVICES does not matter).
//
// Every word has one writer as a rule, the owner of the slot that it is in. Exceptions: `turn`, which whoever has it or finds it
// given up changes by compare-and-exchange; `wants`, which the same clears, and `signal`, which it counts up; everything of a
// slot, which the daemon clears when the slot's process has ended. There is no lock: a process may die, stop or write anything at
// any time. So readers bound what they read (a slot uses no more than the device has, a slice ends no later than it can), each
// owner's truth is in its own memory and written here again and again, and nobody waits without a deadline
// (server/emulator/driver/device/device_round.h). A robust mutex would not do: its list of owners is pointers in memory that
// others write, and a process that is stopped keeps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr int kEmulatedDevicesMax = 8;
inline constexpr uint32_t kDeviceSlotsMax = 1024;

// How long a device runs one process while others wait. Source: an H200 was seen to switch after 2.1 to 2.4 ms.
inline constexpr uint64_t kDeviceSliceUs = 2000;

// Whose slice of a device's time it is, as one word.
struct DeviceTurn {
  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t slot = kNobody;
  uint64_t end_us = 0;  // CLOCK_MONOTONIC; the slice began kDeviceSliceUs before

  static DeviceTurn Of(uint64_t word) {
    const auto place = static_cast<uint32_t>(word & 0xFFF);
    return place == 0 || place > kDeviceSlotsMax ? DeviceTurn{} : DeviceTurn{place - 1, word >> 12};
  }
  uint64_t word() const { return slot == kNobody ? 0 : end_us << 12 | (slot + 1); }
};

struct DevicePage {
  struct alignas(64) Slot {
    std::atomic<uint64_t> used_bytes;
    std::atomic<uint64_t> asked_bytes;  // what the process is about to take (memory_share.h); 0 as a rule
    std::atomic<uint64_t> busy_ns;      // how long the device has worked for it
    std::atomic<uint64_t> running;      // kernels that are on the device or wait for it
    std::atomic<uint32_t> wants;        // 1: it waits for its slice, or has it
    std::atomic<uint32_t> signal;       // counts up when its slice begins; a futex
  };
  struct Device {
    alignas(64) std::atomic<uint64_t> turn;  // a DeviceTurn
    Slot slots[kDeviceSlotsMax];
  };

  std::atomic<uint32_t> slots_end;                // no slot from this one on was ever taken; written by the daemon
  std::atomic<uint32_t> owners[kDeviceSlotsMax];  // process ids, 0: free; written by the daemon
  Device devices[kEmulatedDevicesMax];
};
static_assert(sizeof(DevicePage::Slot) == 64 && offsetof(DevicePage, devices) == 4160);  // as tests/system/product.py reads it

}  // namespace tessera
