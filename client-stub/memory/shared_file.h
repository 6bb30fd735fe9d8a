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

// nullopt: a byte of the range is private memory, the mapping is not one piece of one file, the file ends before the last page,
// or it cannot be opened again. It cannot if it has no name (or another file has the name now) and no descriptor of it is open
// here.
std::optional<SharedFile> FindSharedFile(const Range& range);

// Whether some byte of the range is in a shared mapping (MAP_SHARED), so that other processes may have the same memory.
bool IsShared(const Range& range);

}  // namespace tessera
