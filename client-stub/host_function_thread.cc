#include "client-stub/host_function_thread.h"

#include "client-stub/guest_thread.h"
#include "client-stub/thread_state.h"

namespace tessera {

HostFunctionThread::~HostFunctionThread() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
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
  if (!thread_.joinable()) thread_ = StartGuestThread(name_, [this] { Run(); });
  posted_.notify_one();
}

void HostFunctionThread::Run() {
  ThreadState::Current().in_host_function = true;
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopped_) posted_.wait(mutex_);
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace tessera
