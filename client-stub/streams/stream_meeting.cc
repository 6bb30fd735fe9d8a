#include "client-stub/streams/stream_meeting.h"

#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/stream_visit.h"
#include "protocol/base/mutex.h"

namespace tessera {
namespace {

// What the calls of a thread return whose streams waited for one that will not come.
constexpr CUresult kMissed = CUDA_ERROR_DEVICE_UNAVAILABLE;

class Meeting {
 public:
  Meeting(Session& first, Session& second, uint32_t thread, std::function<void()> action)
      : sessions_{&first, &second}, thread_(thread), action_(std::move(action)) {}

  bool Concerns(const Session& session) const { return sessions_[0] == &session || sessions_[1] == &session; }

  // The stream of one side is here.
  void Arrive(int side, const GoOn& go_on) EXCLUDES(mutex_) {
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

  // One side will not come: whoever waits, or comes, goes on. Nothing once both were here.
  void Cancel() EXCLUDES(mutex_) {
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

 private:
  void Miss(int side, const GoOn& go_on) {
    sessions_[side]->deferred_errors().AddOnce(thread_, kMissed);
    go_on();
  }

  Session* const sessions_[2];
  const uint32_t thread_;
  const std::function<void()> action_;
  Mutex mutex_;
  GoOn waiting_ GUARDED_BY(mutex_);  // of the side that is here already
  int waiting_side_ GUARDED_BY(mutex_) = 0;
  bool over_ GUARDED_BY(mutex_) = false;
};

// The meetings to come, for the end of a session. They leave it with their last visit.
class MeetingTable {
 public:
  void Add(const std::shared_ptr<Meeting>& meeting) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (meetings_.size() >= sweep_at_) {
      std::erase_if(meetings_, [](const std::weak_ptr<Meeting>& one) { return one.expired(); });
      sweep_at_ = 2 * meetings_.size() + kSweepMin;
    }
    meetings_.push_back(meeting);
  }
  void CancelOf(const Session& session) EXCLUDES(mutex_) {
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
  // The end of the session is heard of here.
  void Watch(Session& session) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!watched_.insert(&session).second) return;
    }
    session.OnGone([this, &session] { CancelOf(session); });
  }

 private:
  static constexpr size_t kSweepMin = 64;
  Mutex mutex_;
  std::vector<std::weak_ptr<Meeting>> meetings_ GUARDED_BY(mutex_);
  size_t sweep_at_ GUARDED_BY(mutex_) = kSweepMin;
  std::unordered_set<const Session*> watched_ GUARDED_BY(mutex_);
};

MeetingTable& Meetings() {
  static auto* const table = new MeetingTable;
  return *table;
}

// One side's part in a meeting, owned by its visit: a visit that is dropped has not been made.
class Part {
 public:
  Part(std::shared_ptr<Meeting> meeting, int side) : meeting_(std::move(meeting)), side_(side) {}
  ~Part() { meeting_->Cancel(); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  void Arrive(const GoOn& go_on) const {
    // The part stays until the meeting is over: the visit itself ends at once.
    meeting_->Arrive(side_, [go_on, self = kept_.lock()] { go_on(); });
  }
  static std::shared_ptr<Part> Make(const std::shared_ptr<Meeting>& meeting, int side) {
    auto part = std::make_shared<Part>(meeting, side);
    part->kept_ = part;
    return part;
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int side_;
  std::weak_ptr<const Part> kept_;
};

}  // namespace

CUresult MeetStreams(BasicCall& first, HandleId first_stream, BasicCall& second, HandleId second_stream,
                     std::function<void()> action, const Range& written) {
  Meetings().Watch(first.session());
  Meetings().Watch(second.session());
  const auto meeting = std::make_shared<Meeting>(first.session(), second.session(), first.thread().number, std::move(action));
  Meetings().Add(meeting);
  // Before anything waits for it: a session that is gone by now has cancelled what there was.
  if (first.session().gone() || second.session().gone()) return first.Fail(kServerGone);
  const auto visit = [&meeting](int side) -> Visit {
    return [part = Part::Make(meeting, side)](const GoOn& go_on) { part->Arrive(go_on); };
  };
  CUresult result = VisitStream(first, first_stream, visit(0), written);
  if (result == CUDA_SUCCESS) result = VisitStream(second, second_stream, visit(1));
  if (result != CUDA_SUCCESS) meeting->Cancel();
  return result;
}

}  // namespace tessera
