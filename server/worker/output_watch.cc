#include "server/worker/output_watch.h"

#include <chrono>

#include "server/worker/worker.h"

namespace tessera {

OutputWatch::OutputWatch(Worker& worker) : worker_(worker), thread_([this] { Loop(); }) {}

OutputWatch::~OutputWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_one();
  thread_.join();
}

void OutputWatch::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_changed_.wait_for(lock, std::chrono::milliseconds(kPeriodMs), [this] { return stop_; })) {
    worker_.DrainDeviceOutput();
  }
}

}  // namespace tessera
