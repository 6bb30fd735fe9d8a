// A thread that runs what streams ask of this process. One such thread runs host functions of the application (cuLaunchHostFunc,
// cuStreamAddCallback, host nodes). Another runs the library's own visits (stream_visit.h), so that no function of the
// application can hold them up. Tasks run one after the other, with ThreadState::in_host_function set, and never on a thread that
// the protocol needs.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "protocol/base/mutex.h"
#include "protocol/channel/waiting.h"

namespace tessera {

class HostFunctionThread {
 public:
  explicit HostFunctionThread(const char* name) : name_(name) {}  // a literal of at most 15 characters
  ~HostFunctionThread();                                          // drops tasks that have not begun, waits for one that has

  // Runs `task` after those posted before. The thread is started at the first use, with all signals blocked. Any
  // thread, notice handlers too.
  void Post(std::function<void()> task) EXCLUDES(mutex_);

 private:
  void Run() EXCLUDES(mutex_);

  const char* const name_;
  Mutex mutex_;
  ConditionVariable posted_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> called_{false};  // there is a task, or the object is stopped; the thread looks before it sleeps
  AdaptiveSpin spin_;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
