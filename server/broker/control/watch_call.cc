#include "server/broker/control/watch_call.h"

#include <utility>

#include "server/broker/control/vgpu_messages.h"

namespace tessera {

void WatchCall::Await(ControlCalls& calls, ControlCalls::Lane& lane) {
  const auto call = std::make_shared<WatchCall>(calls, lane);
  {
    MutexLock lock(call->mutex_);
    call->self_ = call;
  }
  call->context_.AsyncNotifyWhenDone(&call->ended_);
  lane.service().RequestWatch(&call->context_, &call->request_, &call->writer_, lane.completions(), lane.completions(),
                              &call->began_);
}

void WatchCall::Began(bool ok) {
  if (!ok) return;  // the server ends, and with it the process
  Await(calls_, lane_);
  holder_ = calls_.HolderOf(context_);
  const std::shared_ptr<WatchCall> self = shared_from_this();
  if (calls_.AddWatcher(self, holder_) && calls_.Send(self, CallOf(request_, holder_))) return;
  calls_.RemoveWatcher(this);
  MutexLock lock(mutex_);
  Finish({grpc::StatusCode::UNAVAILABLE, "too many watch this server's vGPUs, or call it: try again later"});
}

void WatchCall::Tell(const std::vector<ShownVgpu>& all) {
  std::vector<ShownVgpu> state;
  for (const ShownVgpu& shown : all) {
    if (MaySee(shown, holder_, calls_.administrators())) state.push_back(shown);
  }
  MutexLock lock(mutex_);
  if (is_over_ || finishes_ || state_ == state) return;
  state_ = std::move(state);
  if (!is_answered_) return;
  has_news_ = true;
  if (!writes_) Write();
}

void WatchCall::Answer(const VgpuAnswer& answer) {
  MutexLock lock(mutex_);
  if (is_over_ || finishes_) return;
  gpus_ = answer.gpus;
  is_answered_ = true;
  // What was told meanwhile is later than the answer.
  if (!state_) state_ = answer.vgpus;
  Write();
}

void WatchCall::MakeRoom() {
  MutexLock lock(mutex_);
  if (is_over_ || finishes_) return;
  // Behind a write that nobody reads nothing can be said any more.
  if (writes_) return context_.TryCancel();
  Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "newer calls have its place: too many watch this server's vGPUs"});
}

void WatchCall::Write() {
  control::v1::VgpuList list;
  FillIn({.vgpus = *state_, .gpus = gpus_}, &list);
  has_news_ = false;
  writes_ = true;
  writer_.Write(list, &wrote_);
}

void WatchCall::Finish(const grpc::Status& status) {
  finishes_ = true;
  writer_.Finish(status, &finished_);
}

void WatchCall::Wrote(bool ok) {
  MutexLock lock(mutex_);
  writes_ = false;
  if (is_over_) {
    Finish(grpc::Status::CANCELLED);
  } else if (ok && has_news_) {
    Write();
  }
}

// The caller has gone, or finished_ comes.
void WatchCall::Ended(bool ok) {
  calls_.RemoveWatcher(this);
  {
    MutexLock lock(mutex_);
    is_over_ = true;
    if (!writes_ && !finishes_) Finish(grpc::Status::CANCELLED);
  }
  Release(&saw_end_);
}

void WatchCall::Finished(bool ok) { Release(&saw_finish_); }

void WatchCall::Release(bool* seen) {
  std::shared_ptr<WatchCall> last;
  MutexLock lock(mutex_);
  *seen = true;
  if (saw_end_ && saw_finish_) last = std::move(self_);
}

}  // namespace tessera
