// A worker whose kernels are sleeps of a millisecond: it does what the gate of a worker does, and uses no processor.
#pragma once

#include <atomic>
#include <thread>

#include "tests/server/broker/test_pages.h"

namespace tessera {

class SleepingWorker {
 public:
  // Greedy from the start.
  SleepingWorker();
  ~SleepingWorker();

  TestPages& pages() { return pages_; }
  std::vector<int> Fds() const { return pages_.Fds(process_); }
  uint64_t used_ns() const { return used_ns_; }
  // Stops to work, and its process ends. The daemon has not said so.
  void Kill();

 private:
  void Run();
  bool IsOpen();
  void RunOnePiece();
  void EndSpan();
  void AwaitToken();

  TestPages pages_;
  TestProcess process_;
  std::atomic<uint64_t> used_ns_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace tessera
