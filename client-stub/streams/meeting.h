// The pending meetings of stream_meeting.h, also those whose other side never comes. Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "client-stub/process/process_part.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "protocol/base/mutex.h"

namespace tessera {

class Meeting {
 public:
  // `thread` gets an error if the meeting is missed. `action` may be empty.
  Meeting(Session& first, Session& second, uint32_t thread, std::function<void()> action)
      : sessions_{&first, &second}, thread_(thread), action_(std::move(action)) {}

  bool Concerns(const Session& session) const { return sessions_[0] == &session || sessions_[1] == &session; }
  // The stream of one side is here.
  void Arrive(int side, const GoOn& go_on) EXCLUDES(mutex_);
  // One side will not come: the other one goes on. Does nothing once both were here.
  void Cancel() EXCLUDES(mutex_);

 private:
  void Miss(int side, const GoOn& go_on);

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
  static MeetingTable& Process() { return PartOfProcess<MeetingTable>::Get(); }

  void Add(const std::shared_ptr<Meeting>& meeting) EXCLUDES(mutex_);
  // The end of the session is heard of here.
  void Watch(Session& session) EXCLUDES(mutex_);

 private:
  static constexpr size_t kSweepMin = 64;
  void CancelOf(const Session& session) EXCLUDES(mutex_);

  Mutex mutex_;
  std::vector<std::weak_ptr<Meeting>> meetings_ GUARDED_BY(mutex_);
  size_t sweep_at_ GUARDED_BY(mutex_) = kSweepMin;
  std::unordered_set<const Session*> watched_ GUARDED_BY(mutex_);
};

}  // namespace tessera
