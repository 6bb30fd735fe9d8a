#include "netaware/service/store_thread.h"

#include <pthread.h>

#include <algorithm>
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

void StoreThread::Then(std::function<void()> done) {
  Commit({}, [done = std::move(done)](const StoreResult&) { done(); });
}

void StoreThread::Read(Look look) {
  {
    MutexLock lock(mutex_);
    looks_.push_back(std::move(look));
  }
  changed_.notify_one();
}

uint64_t StoreThread::writes() {
  MutexLock lock(mutex_);
  return writes_;
}

void StoreThread::Run() {
  pthread_setname_np(pthread_self(), "tessera-store");
  std::chrono::steady_clock::time_point begun;
  for (;;) {
    std::vector<Waiting> batch;
    Look look;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && looks_.empty() && !ends_) changed_.wait(mutex_);
      while (!ends_ && looks_.empty() && std::chrono::steady_clock::now() < begun + kWritePause)
        changed_.wait_until(mutex_, begun + kWritePause);
      if (waiting_.empty() && ends_) return;
      if (!looks_.empty()) {
        look = std::move(looks_.front());
        looks_.pop_front();
      }
      if (const auto now = std::chrono::steady_clock::now(); !waiting_.empty() && (ends_ || now >= begun + kWritePause)) {
        begun = now;
        batch = std::exchange(waiting_, {});
        writes_ += std::ranges::any_of(batch, [](const Waiting& each) { return !each.transaction.empty(); });
      }
    }
    if (look) look(store_);
    if (batch.empty()) continue;
    Write(std::move(batch));
  }
}

void StoreThread::Write(std::vector<Waiting> batch) {
  std::vector<StoreTransaction> transactions;
  for (const Waiting& each : batch) {
    if (!each.transaction.empty()) transactions.push_back(each.transaction);
  }
  const std::vector<StoreResult> results = transactions.empty() ? std::vector<StoreResult>() : store_.Commit(transactions);
  auto result = results.begin();
  for (const Waiting& each : batch) each.done(each.transaction.empty() ? StoreResult() : *result++);
}

}  // namespace tessera
