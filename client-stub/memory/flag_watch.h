// While work runs that uses host memory which the server has a copy of, looks again and again whether the program changed a
// single word of it: a kernel that waits for a flag sees it, although its launch met the program long before.
//
// Looking takes at most a tenth of a processor, and happens only while such work is not known to be done. Each look comes soon at
// first, then ever more rarely.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "protocol/base/mutex.h"

namespace tessera {

class FlagWatch {
 public:
  // `look` runs on a thread of the watch's own and may wait.
  explicit FlagWatch(std::function<void()> look) : look_(std::move(look)) {}
  ~FlagWatch();  // waits for a look that is under way

  // One more piece of work is about to be given to the device. Any thread.
  void Began() EXCLUDES(mutex_);
  // So many of them are done. Any thread.
  void Ended(uint64_t count) EXCLUDES(mutex_);

 private:
  void Run() EXCLUDES(mutex_);

  const std::function<void()> look_;
  Mutex mutex_;
  ConditionVariable changed_;
  uint64_t begun_ GUARDED_BY(mutex_) = 0;  // pieces of work
  uint64_t ended_ GUARDED_BY(mutex_) = 0;  // at least so many of them
  bool idle_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
