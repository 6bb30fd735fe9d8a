// What the threads of a context have of the device's memory for variables of their own and their stacks: each thread that the
// device can hold at once as much as CU_LIMIT_STACK_SIZE says. The program sets the limit, and memory is taken or given back at
// once; a launch of a kernel that needs more raises it. A new context's part belongs to the context. Any thread.
// Source: driver 580.159.04 on an H100, whether or not CU_CTX_LMEM_RESIZE_TO_MAX is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "server/emulator/driver/base/api.h"
#include "server/emulator/driver/device/device.h"

namespace tessera::emulator {

class LocalMemory {
 public:
  explicit LocalMemory(Device& device) : device_(device) {}

  size_t limit() const;
  // CUDA_ERROR_OUT_OF_MEMORY, and nothing has changed, when the device has not that much left.
  CUresult Set(size_t bytes);
  // As Set(), where the limit is lower.
  CUresult Raise(size_t bytes);
  // The context ends: the device has all of it back.
  void Clear();

 private:
  static constexpr size_t kFirstLimit = 1024;

  CUresult SetLocked(size_t bytes);

  Device& device_;
  mutable std::mutex mutex_;  // guards the rest
  size_t limit_ = kFirstLimit;
  uint64_t taken_bytes_ = 0;
};

}  // namespace tessera::emulator
