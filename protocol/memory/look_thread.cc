#include "protocol/memory/look_thread.h"

#include <chrono>
#include <utility>

#include "protocol/memory/look_pace.h"

namespace tessera {

LookThread::LookThread(Start start, std::function<bool()> wanted, std::function<void()> look)
    : start_(std::move(start)), wanted_(std::move(wanted)), look_(std::move(look)) {}

LookThread::~LookThread() { Stop(); }

void LookThread::Wake() {
  MutexLock lock(mutex_);
  if (stopped_) return;
  if (!thread_.joinable()) thread_ = start_([this] { Run(); });
  if (idle_) changed_.notify_all();
}

void LookThread::Stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void LookThread::Run() {
  LookPace pace;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!wanted_()) pace.Rest();
      idle_ = true;
      while (!wanted_() && !stopped_) changed_.wait(mutex_);
      idle_ = false;
      const auto until = std::chrono::steady_clock::now() + pace.pause();
      while (!stopped_ && changed_.wait_until(mutex_, until) != std::cv_status::timeout) {
      }
      if (stopped_) return;
      if (!wanted_()) continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    look_();
    pace.Looked(std::chrono::steady_clock::now() - begin);
  }
}

}  // namespace tessera
