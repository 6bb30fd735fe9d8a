#include "client-stub/streams/meeting.h"

#include <utility>

namespace tessera {
namespace {

// What the calls of a thread return whose streams waited for one that will not come.
constexpr CUresult kMissed = CUDA_ERROR_DEVICE_UNAVAILABLE;

}  // namespace

void Meeting::Arrive(int side, const GoOn& go_on) {
  GoOn other;
  bool missed = false;
  {
    MutexLock lock(mutex_);
    missed = over_;
    if (!over_ && waiting_ == nullptr) {
      waiting_ = go_on;
      waiting_side_ = side;
      return;
    }
    over_ = true;
    other = std::exchange(waiting_, nullptr);
  }
  if (missed) return Miss(side, go_on);
  if (action_) action_();
  other();
  go_on();
}

void Meeting::Cancel() {
  GoOn waiting;
  int side = 0;
  {
    MutexLock lock(mutex_);
    if (over_) return;
    over_ = true;
    waiting = std::exchange(waiting_, nullptr);
    side = waiting_side_;
  }
  if (waiting == nullptr) return;
  // Not here: this may be a thread that must not wait, and the answer may have to.
  sessions_[side]->stream_visits().Post([this_side = sessions_[side], thread = thread_, waiting] {
    this_side->deferred_errors().AddOnce(thread, kMissed);
    waiting();
  });
}

void Meeting::Miss(int side, const GoOn& go_on) {
  sessions_[side]->deferred_errors().AddOnce(thread_, kMissed);
  go_on();
}

void MeetingTable::Add(const std::shared_ptr<Meeting>& meeting) {
  MutexLock lock(mutex_);
  if (meetings_.size() >= sweep_at_) {
    std::erase_if(meetings_, [](const std::weak_ptr<Meeting>& one) { return one.expired(); });
    sweep_at_ = 2 * meetings_.size() + kSweepMin;
  }
  meetings_.push_back(meeting);
}

void MeetingTable::CancelOf(const Session& session) {
  std::vector<std::shared_ptr<Meeting>> concerned;
  {
    MutexLock lock(mutex_);
    for (const std::weak_ptr<Meeting>& one : meetings_) {
      auto meeting = one.lock();
      if (meeting != nullptr && meeting->Concerns(session)) concerned.push_back(std::move(meeting));
    }
  }
  for (const auto& meeting : concerned) meeting->Cancel();
}

void MeetingTable::Watch(Session& session) {
  {
    MutexLock lock(mutex_);
    if (!watched_.insert(&session).second) return;
  }
  session.OnGone([this, &session] { CancelOf(session); });
}

}  // namespace tessera
