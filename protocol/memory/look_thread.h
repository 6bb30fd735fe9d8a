// A thread that looks again and again, at LookPace, at memory that somebody else writes without notice. It sleeps while there is
// nothing to look for.
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
  // Starts a thread that runs `body`, in a way that suits the process. May throw std::system_error, as std::thread does.
  using Start = std::function<std::thread(std::function<void()> body)>;

  // `wanted` says whether there is something to look for. It is called with a lock held and must not wait. `look` runs on the
  // thread and may wait.
  LookThread(Start start, std::function<bool()> wanted, std::function<void()> look);
  // Calls Stop().
  ~LookThread();
  LookThread(const LookThread&) = delete;
  LookThread& operator=(const LookThread&) = delete;

  // Call this when `wanted` has become true. The first call starts the thread. Any thread.
  void Wake() EXCLUDES(mutex_);
  // Ends the thread for good, once a look that is under way is done. Idempotent.
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
