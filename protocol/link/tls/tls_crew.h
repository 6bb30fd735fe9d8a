// Threads that seal and open the records of large frames together with the thread that sends or receives them. The cipher takes
// longer for a byte than the network does: alone, a core that does both leaves the network waiting.
//
//   crew.Share(records, [&](size_t lane, size_t i) { keys.SealAt(lane, first + i, ...); });
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class TlsCrew {
 public:
  static constexpr size_t kHelpersMax = 3;
  // A machine with fewer cores has better things to do with them.
  static constexpr size_t kCoresMin = 8;

  // `helpers` threads, at most kHelpersMax, which begin with the first Share().
  explicit TlsCrew(size_t helpers);
  ~TlsCrew();
  TlsCrew(const TlsCrew&) = delete;

  // That of the process, for all of its links; it lives as long. Without helpers below kCoresMin.
  static TlsCrew& OfProcess();

  // Calls work(lane, i) once for every i below `count`, here and on what helpers are free; returns when all of it is done. One
  // thread at a time is in one lane: 0 is the caller, the helpers are 1 to helpers(). Any thread, several at once.
  void Share(size_t count, const std::function<void(size_t lane, size_t i)>& work) EXCLUDES(mutex_);
  size_t helpers() const { return helpers_; }

 private:
  struct Job {
    const std::function<void(size_t lane, size_t i)>& work;
    const size_t count;
    std::atomic<size_t> next{0};
    std::atomic<size_t> helping{0};  // threads; changes under mutex_
    bool Left() const { return next.load(std::memory_order_relaxed) < count; }
  };

  void Help(size_t lane) EXCLUDES(mutex_);
  static void Work(Job& job, size_t lane);

  const size_t helpers_;
  Mutex mutex_;
  ConditionVariable changed_;  // there is a job, or it is over
  ConditionVariable done_;     // nobody helps with a job any more
  std::list<Job*> jobs_ GUARDED_BY(mutex_);
  bool over_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> posted_{0};  // jobs so far, for helpers that look before they sleep
};

}  // namespace tessera
