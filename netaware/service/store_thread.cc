#include "netaware/service/store_thread.h"

#include <utility>

namespace tessera {

StoreThread::StoreThread(Store& store) : store_(store), thread_([this] { Run(); }) {}

void StoreThread::End() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void StoreThread::Commit(StoreTransaction transaction, Done done) {
  {
    MutexLock lock(mutex_);
    waiting_.push_back({std::move(transaction), std::move(done)});
  }
  changed_.notify_one();
}

uint64_t StoreThread::writes() {
  MutexLock lock(mutex_);
  return writes_;
}

void StoreThread::Run() {
  std::chrono::steady_clock::time_point begun;
  for (;;) {
    std::vector<Waiting> batch;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !ends_) changed_.wait(mutex_);
      while (!ends_ && std::chrono::steady_clock::now() < begun + kWritePause) changed_.wait_until(mutex_, begun + kWritePause);
      begun = std::chrono::steady_clock::now();
      if (waiting_.empty()) return;
      batch = std::exchange(waiting_, {});
      ++writes_;
    }
    std::vector<StoreTransaction> transactions;
    for (Waiting& each : batch) transactions.push_back(std::move(each.transaction));
    const std::vector<StoreResult> results = store_.Commit(transactions);
    for (size_t i = 0; i < batch.size(); ++i) batch[i].done(results[i]);
  }
}

}  // namespace tessera
