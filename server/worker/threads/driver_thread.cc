#include "server/worker/threads/driver_thread.h"

#include <new>

#include "generated/driver_table.h"

namespace tessera {

DriverThread& DriverThread::Of(uint64_t session) {
  thread_local DriverThread thread;
  if (thread.session_ != session) {
    thread.session_ = session;
    thread.known_ = false;
    thread.relaxed_ = false;
  }
  return thread;
}

CUresult DriverThread::SetContext(const DriverTable& driver, uint32_t epoch, CUcontext context) {
  if (!relaxed_) {
    // Which calls are legal during capture is decided at the client, per application thread; here nothing is forbidden.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (const CUresult result = driver.cuThreadExchangeStreamCaptureMode(&mode); result != CUDA_SUCCESS) return result;
    relaxed_ = true;
  }
  if (known_ && current_ == context && epoch_ == epoch) return CUDA_SUCCESS;
  const CUresult result = driver.cuCtxSetCurrent(context);
  known_ = result == CUDA_SUCCESS;
  current_ = known_ ? context : nullptr;
  epoch_ = epoch;
  return result;
}

void* DriverThread::Scratch(size_t bytes) {
  constexpr size_t kAlign = alignof(std::max_align_t);
  if (bytes > kScratchBytesMax) return nullptr;
  bytes = (bytes + kAlign - 1) & ~(kAlign - 1);
  if (!first_block_) first_block_.reset(new (std::nothrow) std::byte[kFirstBlockBytes]);
  if (!first_block_) return nullptr;
  if (bytes <= kFirstBlockBytes - first_used_) {
    void* memory = first_block_.get() + first_used_;
    first_used_ += bytes;
    return memory;
  }
  if (bytes > kScratchBytesMax - more_bytes_) return nullptr;
  std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[bytes]);
  if (!block) return nullptr;
  more_bytes_ += bytes;
  more_.push_back(std::move(block));
  return more_.back().get();
}

void DriverThread::BeginCall() {
  first_used_ = 0;
  if (more_.empty()) return;
  more_.clear();
  more_bytes_ = 0;
}

}  // namespace tessera
