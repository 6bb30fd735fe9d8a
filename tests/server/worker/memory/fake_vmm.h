// A driver with nothing but virtual memory management, in numbers: what the device heap needs, with a device of a given
// size and every rule that matters checked (mapped twice, unmapped what is not mapped, released what is still mapped).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <set>

#include "generated/driver_table.h"

namespace tessera {

struct FakeVmm {
  struct Mapping {
    uint64_t bytes;
    uint64_t physical;
    std::set<int> readable;
  };
  uint64_t device_bytes = uint64_t{64} << 20;
  uint64_t used_bytes = 0;
  bool supported = true;
  // Reservations that touch this range are given somewhere else, as a driver that keeps something there does.
  uint64_t refused_base = 0;
  uint64_t refused_bytes = 0;
  std::map<uint64_t, uint64_t> reserved;
  std::map<uint64_t, Mapping> mapped;
  std::map<uint64_t, uint64_t> physical;  // handle -> bytes
  uint64_t next_handle = 1;
  int creates = 0;
  int mistakes = 0;

  // The functions work on this object; one at a time.
  DriverTable Table();
};

}  // namespace tessera
