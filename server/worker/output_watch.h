// Sends what the driver wrote on its own: it does not wait for a call to write out what kernels printed (driver 580 on an H200
// writes it within a tenth of a second, assertions too).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tessera {

class Worker;

// A part of the worker: worker.Part<OutputWatch>() starts it, once there is code that may print. A thread of its own looks every
// kPeriodMs; nothing but that costs time.
class OutputWatch {
 public:
  static constexpr int kPeriodMs = 50;

  explicit OutputWatch(Worker& worker);
  ~OutputWatch();

 private:
  void Loop();

  Worker& worker_;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tessera
