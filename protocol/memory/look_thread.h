// A thread that looks again and again at memory which somebody else writes without saying so, at LookPace, as long as there is
// something to look for; without that it sleeps.
//
//   LookThread looks(start, [&] { return working(); }, [&] { Look(); });
//   ... working() becomes true ...
//   looks.Wake();
#pragma once

#include <functional>
#include <thread>

#include "protocol/base/mutex.h"

namespace tessera {

class LookThread {
 public:
  // Starts the thread, in a way that suits the process. May throw std::system_error as std::thread does.
  using Start = std::function<std::thread(std::function<void()> body)>;

  // `wanted`: there is something to look for. Called with a lock held, it must not wait. `look` runs on the thread and may wait.
  LookThread(Start start, std::function<bool()> wanted, std::function<void()> look);
  // Stop().
  ~LookThread();
  LookThread(const LookThread&) = delete;
  LookThread& operator=(const LookThread&) = delete;

  // `wanted` has become true. Starts the thread with the first call. Any thread.
  void Wake() EXCLUDES(mutex_);
  // Ends the thread for good, after a look that is under way. Idempotent.
  void Stop() EXCLUDES(mutex_);

 private:
  void Run() EXCLUDES(mutex_);

  const Start start_;
  const std::function<bool()> wanted_;
  const std::function<void()> look_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool idle_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
