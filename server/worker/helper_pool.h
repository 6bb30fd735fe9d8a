// Threads for work that may block inside the driver: module loads, instantiation, frees, registration.
//
//   worker.helpers().Run([&worker, deferred] () mutable { deferred.Finish(worker.driver().cuX(...)); });
//
// Threads start on demand, one for every task that finds all others busy, up to a number; beyond that tasks queue.
// A task sets its own current context (Worker::SetContext) before it calls the driver. Tasks have no order among each
// other: the client thread that caused a task waits for its answer, which is all the order CUDA asks for.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class HelperPool {
 public:
  // Client threads that can be inside a blocking call at once without queueing.
  static constexpr size_t kHelpersMax = 32;
  // Tasks waiting for a helper: at most one per client thread, and few clients have more threads than this.
  static constexpr size_t kQueuedMax = 65536;

  // `threads_max`: of this pool.
  explicit HelperPool(size_t threads_max = kHelpersMax) : threads_max_(threads_max) {}
  ~HelperPool();  // Stop()

  // False when the pool has stopped or kQueuedMax tasks wait: the task was not taken. Any thread.
  bool Run(std::function<void()> task) EXCLUDES(mutex_);

  // Lets the tasks in hand finish, drops the queued ones, joins the threads. Idempotent. Not from a helper thread.
  void Stop() EXCLUDES(mutex_);

 private:
  void Loop();

  const size_t threads_max_;
  Mutex mutex_;
  ConditionVariable wake_;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  size_t idle_ GUARDED_BY(mutex_) = 0;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace tessera
