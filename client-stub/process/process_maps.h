// What this process has mapped. Source: proc(5), /proc/pid/maps. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "protocol/memory/range_allocator.h"

namespace tessera {

// What a line of /proc/self/maps says.
struct MapLine {
  uint64_t begin = 0, end = 0, offset = 0, inode = 0;
  dev_t device = 0;
  bool shared = false, readable = false, writable = false;
  std::string path;
};

// Calls `visit(line)` for the mappings of this process, in the order of their addresses, until it returns false. False:
// the list cannot be read.
bool ForEachMapping(const std::function<bool(const MapLine& line)>& visit);

// Whether this process may read all of the range, and write it if `writes`.
bool IsAccessible(const Range& range, bool writes);

}  // namespace tessera
