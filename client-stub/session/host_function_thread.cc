#include "client-stub/session/host_function_thread.h"

#include "client-stub/process/guest_thread.h"
#include "client-stub/session/thread_state.h"

namespace tessera {

HostFunctionThread::~HostFunctionThread() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    called_.store(true);
    tasks_.clear();
    thread = std::move(thread_);
  }
  posted_.notify_all();
  if (thread.joinable()) thread.join();
}

void HostFunctionThread::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  called_.store(true);
  if (!thread_.joinable()) thread_ = StartGuestThread(name_, [this] { Run(); });
  posted_.notify_one();
}

void HostFunctionThread::Run() {
  ThreadState::Current().in_host_function = true;
  for (;;) {
    std::function<void()> task;
    // A stream waits for what comes next, often soon: a wake-up costs it more.
    spin_.Spin([this] { return called_.load(std::memory_order_relaxed); });
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopped_) posted_.wait(mutex_);
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      called_.store(!tasks_.empty());
    }
    task();
  }
}

}  // namespace tessera
