#include "server/worker/memory/mirror_watch.h"

#include <pthread.h>

#include <thread>
#include <utility>

#include "generated/driver_table.h"
#include "server/worker/call_context.h"
#include "server/worker/worker.h"

namespace tessera {

namespace {

std::thread StartLooking(std::function<void()> body) {
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), "tessera-mirrors");
  return thread;
}

}  // namespace

MirrorWatch::MirrorWatch(Worker& worker, std::function<void(bool lone)> tell)
    : worker_(worker),
      tell_(std::move(tell)),
      looks_(
          &StartLooking, [this] { return working(); }, [this] { Look(); }) {}

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
  Recorded before;
  bool resting = false;
  {
    MutexLock lock(mutex_);
    if (const auto found = recorded_.find(key); found != recorded_.end()) {
      before = found->second;
      recorded_.erase(found);
    }
    ++uses_;
    recording_ = true;
    resting = !working_.exchange(true, std::memory_order_acq_rel);
  }
  if (resting) looks_.Wake();
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

void MirrorWatch::Look() {
  bool done = false;
  uint64_t uses = 0;
  {
    MutexLock lock(mutex_);
    done = AllDone();
    uses = uses_;
  }
  tell_(!done);
  if (!done) return;
  {
    MutexLock lock(mutex_);
    if (uses != uses_) return;
    working_.store(false, std::memory_order_release);
  }
  worker_.SendNotice(NoticeKind::kMirrorsIdle, uses);
}

}  // namespace tessera
