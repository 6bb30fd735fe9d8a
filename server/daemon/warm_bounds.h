// How many workers may wait when their number goes by demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tessera {

// The most in any case.
inline constexpr size_t kWarmMax = 16;
// Waiting workers take no more than this part of the memory that is free, of the device and of the machine.
inline constexpr uint64_t kWarmShare = 8;
// What is reckoned for one: its context on the device (some 500 MiB on an H200), and the driver's memory in the process.
inline constexpr uint64_t kWarmDeviceBytes = uint64_t{640} << 20;
inline constexpr uint64_t kWarmHostBytes = uint64_t{256} << 20;

struct WarmBounds {
  uint64_t device_free_bytes = 0;  // 0: unknown
  uint64_t host_free_bytes = 0;    // 0: unknown
  std::optional<size_t> users;     // user ids that workers can have; nullopt: they need none of their own
};

// At least 1, which the machine was taken to have room for when the server was started; with user ids, at most half of them.
// Pure.
size_t WarmWorkersWithin(const WarmBounds& bounds);

}  // namespace tessera
