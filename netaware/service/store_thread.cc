#include "netaware/service/store_thread.h"

#include <utility>

namespace tessera {

StoreThread::StoreThread(Store& store) : store_(store), thread_([this] { Run(); }) {}

StoreThread::~StoreThread() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
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
  for (;;) {
    std::vector<Waiting> batch;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !ends_) changed_.wait(mutex_);
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
