#include "tests/server/worker/fake_driver.h"

#include <atomic>
#include <memory>

#include "protocol/base/check.h"

namespace tessera {
namespace {

thread_local CUcontext t_current = nullptr;
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

FakeDriver* FakeDriver::live_ = nullptr;

FakeDriver::FakeDriver() {
  CHECK(live_ == nullptr);
  live_ = this;
  t_current = nullptr;
  t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  table_.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, t_mode);
    return CUDA_SUCCESS;
  };
  table_.cuCtxSetCurrent = [](CUcontext context) {
    t_current = context;
    return CUDA_SUCCESS;
  };
  table_.cuStreamCreate = [](CUstream* stream, unsigned) {
    if (t_current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *stream = live_->NewStream(t_current);
    return CUDA_SUCCESS;
  };
  table_.cuStreamDestroy_v2 = [](CUstream stream) {
    MutexLock lock(live_->mutex_);
    return live_->streams_.erase(stream) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  };
  table_.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    MutexLock lock(live_->mutex_);
    const auto found = live_->streams_.find(stream);
    if (found == live_->streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
    *context = found->second;
    return CUDA_SUCCESS;
  };
  table_.cuEventCreate = [](CUevent* event, unsigned) {
    if (t_current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    MutexLock lock(live_->mutex_);
    *event = reinterpret_cast<CUevent>(live_->next_ += 0x10);
    live_->events_[*event].context = t_current;
    ++live_->events_made_;
    return CUDA_SUCCESS;
  };
  table_.cuEventDestroy_v2 = [](CUevent event) {
    MutexLock lock(live_->mutex_);
    return live_->events_.erase(event) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  };
  table_.cuEventRecord = [](CUevent event, CUstream stream) {
    MutexLock lock(live_->mutex_);
    const auto found = live_->events_.find(event);
    if (found == live_->events_.end()) return CUDA_ERROR_INVALID_HANDLE;
    const auto of_stream = live_->streams_.find(stream);
    live_->ended_.erase(stream);
    const CUcontext context = of_stream == live_->streams_.end() ? t_current : of_stream->second;
    if (context != found->second.context) return CUDA_ERROR_INVALID_HANDLE;  // as the driver: one context for both
    found->second.stream = stream;
    found->second.done = live_->idle_;
    found->second.error = CUDA_SUCCESS;
    return CUDA_SUCCESS;
  };
  table_.cuStreamQuery = [](CUstream stream) {
    MutexLock lock(live_->mutex_);
    if (live_->idle_) return CUDA_SUCCESS;
    const auto ended = live_->ended_.find(stream);
    return ended == live_->ended_.end() ? CUDA_ERROR_NOT_READY : ended->second;
  };
  table_.cuStreamGetFlags = [](CUstream stream, unsigned* flags) {
    MutexLock lock(live_->mutex_);
    *flags = live_->blocking_.contains(stream) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
  };
  table_.cuEventQuery = [](CUevent event) {
    MutexLock lock(live_->mutex_);
    ++live_->queries_;
    const auto found = live_->events_.find(event);
    if (found == live_->events_.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (!found->second.done) return CUDA_ERROR_NOT_READY;
    return found->second.error;
  };
}

FakeDriver::~FakeDriver() { live_ = nullptr; }

CUcontext FakeDriver::NewContext() {
  MutexLock lock(mutex_);
  return reinterpret_cast<CUcontext>(next_ += 0x10);
}

CUstream FakeDriver::NewBlockingStream(CUcontext context) {
  const CUstream stream = NewStream(context);
  MutexLock lock(mutex_);
  blocking_.insert(stream);
  return stream;
}

CUstream FakeDriver::NewStream(CUcontext context) {
  MutexLock lock(mutex_);
  const auto stream = reinterpret_cast<CUstream>(next_ += 0x10);
  streams_[stream] = context;
  return stream;
}

void FakeDriver::SetWords() {
  table_.cuCtxGetDevice = [](CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  table_.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;
    return CUDA_SUCCESS;
  };
  table_.cuMemHostRegister_v2 = [](void*, size_t, unsigned) { return CUDA_SUCCESS; };
  table_.cuMemHostUnregister = [](void*) { return CUDA_SUCCESS; };
  table_.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* device, void* host, unsigned) {
    *device = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  };
  table_.cuStreamWaitValue64_v2 = [](CUstream, CUdeviceptr, cuuint64_t, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; };
  table_.cuStreamWriteValue64_v2 = [](CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
    MutexLock lock(live_->mutex_);
    const Write write{stream, address, value};
    live_->idle_ ? live_->WriteWord(write) : live_->writes_.push_back(write);
    return CUDA_SUCCESS;
  };
}

void FakeDriver::WriteWord(const Write& write) {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(write.address)).store(write.value, std::memory_order_release);
}

void FakeDriver::WriteWords() {
  MutexLock lock(mutex_);
  for (const Write& write : writes_) WriteWord(write);
  writes_.clear();
}

void FakeDriver::EnqueueWork(CUstream stream) {
  MutexLock lock(mutex_);
  ended_.erase(stream);
}

void FakeDriver::FinishWork(CUstream stream, CUresult error) {
  MutexLock lock(mutex_);
  ended_[stream] = error;
  for (const Write& write : writes_) {
    if (write.stream == stream && error == CUDA_SUCCESS) WriteWord(write);
  }
  std::erase_if(writes_, [&](const Write& write) { return write.stream == stream; });
  for (auto& [event, state] : events_) {
    if (state.stream != stream || state.done) continue;
    state.done = true;
    state.error = error;
  }
}

void FakeDriver::SetIdle(bool idle) {
  MutexLock lock(mutex_);
  idle_ = idle;
}

size_t FakeDriver::events_made() const {
  MutexLock lock(mutex_);
  return events_made_;
}

size_t FakeDriver::queries() const {
  MutexLock lock(mutex_);
  return queries_;
}

size_t FakeDriver::events_live() const {
  MutexLock lock(mutex_);
  return events_.size();
}

size_t FakeDriver::streams_live() const {
  MutexLock lock(mutex_);
  return streams_.size();
}

CUcontext FakeDriver::Current() { return t_current; }
CUstreamCaptureMode FakeDriver::CaptureMode() { return t_mode; }

}  // namespace tessera
