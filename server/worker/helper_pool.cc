#include "server/worker/helper_pool.h"

#include <pthread.h>

#include <utility>

namespace tessera {

HelperPool::~HelperPool() { Stop(); }

bool HelperPool::Run(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (stopped_ || queue_.size() >= kQueuedMax) return false;
  queue_.push_back(std::move(task));
  if (queue_.size() > idle_ && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Loop(); });
  } else {
    wake_.notify_one();
  }
  return true;
}

void HelperPool::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    queue_.clear();
    threads.swap(threads_);
    wake_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

void HelperPool::Loop() {
  pthread_setname_np(pthread_self(), "tessera-helper");
  mutex_.lock();
  for (;;) {
    while (queue_.empty() && !stopped_) {
      ++idle_;
      wake_.wait(mutex_);
      --idle_;
    }
    if (stopped_) break;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    mutex_.unlock();
    task();
    task = nullptr;  // what the task owns goes before the lock is taken
    mutex_.lock();
  }
  mutex_.unlock();
}

}  // namespace tessera
