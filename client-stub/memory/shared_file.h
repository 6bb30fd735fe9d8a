// Finds shared mappings of the application, and the file behind one (/dev/shm, memfd), so that the server can map it as well.
// Source: proc(5), /proc/pid/maps. Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/base/unique_fd.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

struct SharedFile {
  UniqueFd fd;          // open for reading and writing
  uint64_t offset = 0;  // in the file, of the first page
  Range pages;          // the whole pages around what was asked for
};

// Nothing when any byte of the range is private memory, the mapping is not one piece of one file, the file ends before the
// last page, or the file cannot be opened again: it has no name (or another file has it now) and no descriptor of it is open
// here.
std::optional<SharedFile> FindSharedFile(const Range& range);

// Some byte of the range is of a shared mapping (MAP_SHARED): other processes may have the same memory.
bool IsShared(const Range& range);

}  // namespace tessera
