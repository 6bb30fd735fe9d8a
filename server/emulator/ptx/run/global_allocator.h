// Where the variables of a module lie.
#pragma once

#include <cstdint>

#include "protocol/base/status.h"

namespace tessera::emulator {

// Provides device memory for a module's .global and .const variables. The memory must be reachable by the host at the
// address returned and must be known to the MemoryMap that launches use.
class GlobalAllocator {
 public:
  virtual ~GlobalAllocator() = default;
  // `alignment_bytes` is a power of two of at least 1.
  virtual Result<uint64_t> Allocate(uint64_t size_bytes, uint64_t alignment_bytes) = 0;
  // The same for a __managed__ variable, which belongs to all contexts: `kept` is true when an earlier Compile() of the
  // same code has given it its value, which it keeps.
  virtual Result<uint64_t> AllocateManaged(uint64_t size_bytes, uint64_t alignment_bytes, bool* kept) = 0;
  // Called from ~Module (or a failed Compile) for every address that the two returned.
  virtual void Free(uint64_t address) = 0;
};

}  // namespace tessera::emulator
