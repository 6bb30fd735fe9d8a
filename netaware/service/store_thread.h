// A thread that writes transactions to a store. All that wait share one write to the disk, and their callers go on meanwhile.
//
//   StoreThread writer(*store);
//   writer.Commit(transaction, [](const StoreResult& result) { ... });      // in the writer's thread
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "netaware/store/store.h"
#include "protocol/base/mutex.h"

namespace tessera {

class StoreThread {
 public:
  // The least time between the starts of two writes. Transactions that come meanwhile are written together. The first one after
  // a rest is written at once.
  static constexpr std::chrono::milliseconds kWritePause{8};
  using Done = std::function<void(const StoreResult& result)>;
  using Look = std::function<void(const Store& store)>;

  // Only this thread uses `store` from now on. `store` outlives it.
  explicit StoreThread(Store& store);
  ~StoreThread() { End(); }
  // Writes and answers all waiting transactions, and ends the thread. Later ones are not written. May be called more than once,
  // from one thread.
  void End() EXCLUDES(mutex_);

  // Any thread. Transactions are carried out in order of arrival.
  void Commit(StoreTransaction transaction, Done done) EXCLUDES(mutex_);
  // Calls `done`, in the writer's thread, when all earlier transactions are answered.
  void Then(std::function<void()> done) EXCLUDES(mutex_);
  // Calls `look` with the store, in the writer's thread. There is one look at most between two writes, so a write waits for one
  // only. `look` is not called when the thread has ended.
  void Read(Look look) EXCLUDES(mutex_);
  // The number of writes to the disk.
  uint64_t writes() EXCLUDES(mutex_);

 private:
  struct Waiting {
    StoreTransaction transaction;  // empty: of Then()
    Done done;
  };
  void Write(std::vector<Waiting> batch);
  void Run() EXCLUDES(mutex_);

  Store& store_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Waiting> waiting_ GUARDED_BY(mutex_);
  std::deque<Look> looks_ GUARDED_BY(mutex_);
  uint64_t writes_ GUARDED_BY(mutex_) = 0;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera
