// While work runs that uses host memory which the server has a copy of, looks again and again whether the program changed a
// single word of it: a kernel that waits for a flag sees it, although its launch met the program long before.
//
// Looking takes at most a tenth of a processor, and happens only between Began() and Ended(): a stream comes to such work, and
// has done it. Each look comes soon at first, then ever more rarely.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "protocol/base/mutex.h"

namespace tessera {

class FlagWatch {
 public:
  // `look` runs on a thread of the watch's own and may wait.
  explicit FlagWatch(std::function<void()> look) : look_(std::move(look)) {}
  ~FlagWatch();  // waits for a look that is under way

  // Any thread. Work that Ended() was called for before it began, since it will not come, is none.
  void Began() EXCLUDES(mutex_) { Count(1); }
  void Ended() EXCLUDES(mutex_) { Count(-1); }

 private:
  void Count(int change) EXCLUDES(mutex_);
  void Run() EXCLUDES(mutex_);

  const std::function<void()> look_;
  Mutex mutex_;
  ConditionVariable changed_;
  int running_ GUARDED_BY(mutex_) = 0;  // pieces of work
  bool idle_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
