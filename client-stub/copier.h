// Copies and reads large ranges of host memory with several threads: one core moves 5 GB/s into shared memory on the machine this was
// measured on (H200 host, 16 cores), two 19, four 23; DMA moves 55.
//
// Threads are started at the first large copy, sleep between copies and are never joined (they belong to a library that
// outlives main). Any thread may call; several copies share the threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>

#include "protocol/base/mutex.h"

namespace tessera {

class Copier {
 public:
  static constexpr size_t kThreadsMax = 4;                         // the caller included
  static constexpr size_t kParallelBytesMin = size_t{1} << 20;     // below, waking threads costs more than it brings
  static constexpr size_t kPartBytes = size_t{256} << 10;

  static Copier& Process();

  // As memcpy. Returns when all bytes are copied.
  void Copy(void* to, const void* from, size_t bytes);
  // Calls `work(i)` for every i below `count`, several at once, and returns when all have returned.
  void ForEach(size_t count, const std::function<void(size_t part)>& work);

 private:
  struct Job {
    const std::function<void(size_t part)>& work;
    size_t parts;
    std::atomic<size_t> next{0};
    size_t users = 0;  // helpers inside; guarded by mutex_
  };

  Copier();
  static void Work(Job& job);
  void Loop();
  void StartThreads() REQUIRES(mutex_);

  const size_t helpers_wanted_;
  Mutex mutex_;
  ConditionVariable work_;
  ConditionVariable left_;
  std::deque<Job*> jobs_ GUARDED_BY(mutex_);
  bool started_ GUARDED_BY(mutex_) = false;
  size_t helpers_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera
