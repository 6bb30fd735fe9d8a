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
  const StreamKey key = KeyOfStream(call, id, stream);
  Recorded recorded = Begin(key);
  const CUresult result = Record(stream, &recorded);
  MutexLock lock(mutex_);
  recording_ = false;
  if (result != CUDA_SUCCESS) never_done_ = true;
  if (recorded.event != nullptr) recorded_[key] = recorded;
}

MirrorWatch::Recorded MirrorWatch::Begin(const StreamKey& key) {
  MutexLock lock(mutex_);
  Recorded before;
  if (const auto found = recorded_.find(key); found != recorded_.end()) {
    before = found->second;
    recorded_.erase(found);
  }
  ++uses_;
  recording_ = true;
  const bool resting = !working_.exchange(true, std::memory_order_acq_rel);
  if (stopped_) return before;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  if (resting) changed_.notify_all();
  return before;
}

CUresult MirrorWatch::Record(CUstream stream, Recorded* recorded) {
  const DriverTable& driver = worker_.driver();
  if (recorded->event == nullptr) {
    recorded->context = worker_.CurrentContext();
    const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
    CUcontext own = recorded->context;
    CUresult result = legacy ? CUDA_SUCCESS : driver.cuStreamGetCtx(stream, &own);
    if (result == CUDA_SUCCESS && own != recorded->context) result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS) result = driver.cuEventCreate(&recorded->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) return result;
  }
  return driver.cuEventRecord(recorded->event, stream);
}

void MirrorWatch::EndContext(CUcontext context) {
  MutexLock lock(mutex_);
  std::erase_if(recorded_, [&](const auto& entry) {
    if (entry.second.context != context) return false;
    worker_.driver().cuEventDestroy_v2(entry.second.event);
    return true;
  });
}

bool MirrorWatch::AllDone() {
  std::erase_if(recorded_, [&](const auto& entry) REQUIRES(mutex_) {
    const Recorded& recorded = entry.second;
    if (worker_.SetContext(recorded.context) == CUDA_SUCCESS &&
        worker_.driver().cuEventQuery(recorded.event) == CUDA_ERROR_NOT_READY) {
      return false;
    }
    worker_.driver().cuEventDestroy_v2(recorded.event);  // work that failed writes no more
    return true;
  });
  return recorded_.empty() && !recording_ && !never_done_;
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
