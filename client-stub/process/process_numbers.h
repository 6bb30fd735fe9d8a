// Numbers that are unique in a process, over all its sessions. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "client-stub/process/process_part.h"

namespace tessera {

class ProcessNumbers {
 public:
  static ProcessNumbers& Process() { return PartOfProcess<ProcessNumbers>::Get(); }

  // Each kind counts from 1. Libraries use the numbers of contexts and of memory (CU_POINTER_ATTRIBUTE_BUFFER_ID) as keys of
  // caches; the others travel in records.
  uint64_t NextContext() { return Next(context_); }
  uint64_t NextBuffer() { return Next(buffer_); }
  uint64_t NextBlob() { return Next(blob_); }
  uint32_t NextThread() { return Next(thread_); }

 private:
  template <typename Number>
  static Number Next(std::atomic<Number>& next) {
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> context_{1};
  std::atomic<uint64_t> buffer_{1};
  std::atomic<uint64_t> blob_{1};
  std::atomic<uint32_t> thread_{1};
};

}  // namespace tessera
