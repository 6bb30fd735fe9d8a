// Threads that help a caller with short pieces of work: copies of host memory, records to be sealed.
//
//   WorkCrew crew(3, [](std::function<void()> body) { return std::thread(std::move(body)); });
//   crew.ForEach(parts, [&](size_t lane, size_t part) { ... });
//
// The first ForEach() with something to share starts the threads. Between jobs they spin for as long as that has lately paid
// (AdaptiveSpin), then sleep. The caller always takes part, so a crew without threads works too.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class WorkCrew {
 public:
  // Starts a thread in the way that suits the process. May throw std::system_error as std::thread does; then the crew has fewer
  // threads.
  using Start = std::function<std::thread(std::function<void()> body)>;
  using Work = std::function<void(size_t lane, size_t part)>;

  // `helpers` threads, 0 or more.
  WorkCrew(size_t helpers, Start start) : helpers_(helpers), start_(std::move(start)) {}
  // Ends the threads. Nobody is in ForEach().
  ~WorkCrew();
  WorkCrew(const WorkCrew&) = delete;
  WorkCrew& operator=(const WorkCrew&) = delete;

  // Calls work(lane, part) once for every part below `count`, several at once, and returns when all have returned. `lane` tells
  // which thread does it: 0 is the caller, the helpers are 1 to helpers(). Any thread, several at once.
  void ForEach(size_t count, const Work& work);
  size_t helpers() const { return helpers_; }

 private:
  static constexpr size_t kJobsMax = 8;  // at once; further ones are done by their callers alone
  struct Job {
    const Work& work;
    const size_t parts;
    std::atomic<size_t> next{0};
  };
  // Where a job is found. Helpers count themselves in before they look at the job.
  struct alignas(64) Place {
    std::atomic<bool> taken{false};
    std::atomic<Job*> job{nullptr};
    std::atomic<size_t> users{0};
  };

  void Do(Job& job, size_t place, size_t lane);
  // Takes part in some job, if one has parts left.
  void Help(size_t lane);
  void Loop(size_t lane);
  void StartThreads() EXCLUDES(mutex_);
  void WakeOne() EXCLUDES(mutex_);

  const size_t helpers_;
  const Start start_;
  std::array<Place, kJobsMax> places_;
  alignas(64) std::atomic<uint32_t> open_{0};  // bit i: the job of place i has parts that nobody has taken
  alignas(64) std::atomic<size_t> asleep_{0};
  std::atomic<bool> started_{false};
  std::atomic<bool> over_{false};
  Mutex mutex_;
  ConditionVariable work_;  // there is a job, or it is over
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace tessera
