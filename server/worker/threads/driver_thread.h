// What the worker knows of the calling thread's relation to the driver: which context is current, whether the thread is in
// RELAXED capture mode, and the scratch memory of the call it executes.
//
// One per operating system thread, reached with DriverThread::Of(). A thread that serves two sessions one after the other
// (tests) starts afresh for each. The current context is set through ThreadContexts (thread_contexts.h).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/wire/encoder.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

class DriverThread {
 public:
  // One call's scratch: the arrays of the largest message (a quarter ring) with room to spare.
  static constexpr size_t kScratchBytesMax = size_t{16} << 20;

  // `session`: ThreadContexts::serial().
  static DriverThread& Of(uint64_t session);

  // As ThreadContexts::Set(); `epoch` is another one when what the threads know is no longer to be trusted.
  CUresult SetContext(const DriverTable& driver, uint32_t epoch, CUcontext context);
  CUcontext current() const { return known_ ? current_ : nullptr; }
  void Forget() { known_ = false; }

  // Memory valid until the next BeginCall() of this thread; null beyond kScratchBytesMax. Aligned for every type.
  void* Scratch(size_t bytes);
  // Takes back all scratch.
  void BeginCall();
  // For the reply of the call in hand; whoever writes clears it first.
  Encoder& reply_encoder() { return reply_encoder_; }

 private:
  // Calls that need more than the first block are rare; their blocks are returned when the call ends.
  static constexpr size_t kFirstBlockBytes = 64 * 1024;

  uint64_t session_ = 0;
  CUcontext current_ = nullptr;
  uint32_t epoch_ = 0;  // what SetContext() was given when current_ was set
  bool known_ = false;
  bool relaxed_ = false;
  Encoder reply_encoder_;
  std::unique_ptr<std::byte[]> first_block_;
  size_t first_used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> more_;
  size_t more_bytes_ = 0;
};

}  // namespace tessera
