#include "server/worker/memory/mirror_watch.h"

#include <pthread.h>

#include <chrono>

#include "generated/driver_table.h"
#include "protocol/memory/look_pace.h"
#include "server/worker/call_context.h"
#include "server/worker/worker.h"

namespace tessera {

MirrorWatch::~MirrorWatch() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void MirrorWatch::Used(CallContext& call, HandleId id, CUstream stream) {
  const DriverTable& driver = worker_.driver();
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  const CUcontext context = worker_.CurrentContext();
  const StreamKey key = KeyOfStream(call, id, stream);
  MutexLock lock(mutex_);
  ++uses_;
  Recorded& recorded = recorded_[key];
  CUresult result = CUDA_SUCCESS;
  if (recorded.event == nullptr) {
    CUcontext own = context;
    if (!legacy) result = driver.cuStreamGetCtx(stream, &own);
    if (result == CUDA_SUCCESS && own != context) result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS) result = driver.cuEventCreate(&recorded.event, CU_EVENT_DISABLE_TIMING);
    recorded.context = context;
  }
  if (result == CUDA_SUCCESS) result = driver.cuEventRecord(recorded.event, stream);
  if (result != CUDA_SUCCESS) never_done_ = true;
  const bool resting = !working_.exchange(true, std::memory_order_acq_rel);
  if (stopped_) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  if (resting) changed_.notify_all();
}

void MirrorWatch::EndContext(CUcontext context) {
  MutexLock lock(mutex_);
  std::erase_if(recorded_, [&](const auto& entry) {
    if (entry.second.context != context) return false;
    if (entry.second.event != nullptr) worker_.driver().cuEventDestroy_v2(entry.second.event);
    return true;
  });
}

bool MirrorWatch::AllDone() {
  std::erase_if(recorded_, [&](const auto& entry) REQUIRES(mutex_) {
    const Recorded& recorded = entry.second;
    if (recorded.event == nullptr) return true;
    if (worker_.SetContext(recorded.context) == CUDA_SUCCESS &&
        worker_.driver().cuEventQuery(recorded.event) == CUDA_ERROR_NOT_READY) {
      return false;
    }
    worker_.driver().cuEventDestroy_v2(recorded.event);  // work that failed writes no more
    return true;
  });
  return recorded_.empty() && !never_done_;
}

void MirrorWatch::Run() {
  pthread_setname_np(pthread_self(), "tessera-mirrors");
  LookPace pace;
  for (;;) {
    bool done = false;
    uint64_t uses = 0;
    std::chrono::steady_clock::time_point begin;
    {
      MutexLock lock(mutex_);
      if (!working()) pace.Rest();
      while (!working() && !stopped_) changed_.wait(mutex_);
      const auto until = std::chrono::steady_clock::now() + pace.pause();
      while (!stopped_ && changed_.wait_until(mutex_, until) != std::cv_status::timeout) {
      }
      if (stopped_) return;
      begin = std::chrono::steady_clock::now();
      done = AllDone();
      uses = uses_;
    }
    tell_(!done);
    if (done) {
      MutexLock lock(mutex_);
      done = uses == uses_;
      if (done) working_.store(false, std::memory_order_release);
    }
    if (done) worker_.SendNotice(NoticeKind::kMirrorsIdle, uses);
    pace.Looked(std::chrono::steady_clock::now() - begin);
  }
}

}  // namespace tessera
