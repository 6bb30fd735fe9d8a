// Has a store write what waits, all of it with one write to the disk, while whoever gave it goes on.
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
  // From the begin of one write to that of the next, at least: what comes meanwhile is written together. The first one after a
  // rest waits for nothing.
  static constexpr std::chrono::milliseconds kWritePause{8};
  using Done = std::function<void(const StoreResult& result)>;
  using Look = std::function<void(const Store& store)>;

  // `store` is this thread's from now on, and outlives it.
  explicit StoreThread(Store& store);
  ~StoreThread() { End(); }
  // Writes what waits, answers for it, and ends the thread. What comes later is not written. Once or more, one thread.
  void End() EXCLUDES(mutex_);

  // Any thread. Transactions are carried out in the order in which they come.
  void Commit(StoreTransaction transaction, Done done) EXCLUDES(mutex_);
  // Calls `done`, in the writer's thread, when all that was given before is answered.
  void Then(std::function<void()> done) EXCLUDES(mutex_);
  // `look` sees what is stored, in the writer's thread; one between two writes, so that it delays the next by itself alone. It
  // does not happen when the thread has ended.
  void Read(Look look) EXCLUDES(mutex_);
  // How often the disk was written to.
  uint64_t writes() EXCLUDES(mutex_);

 private:
  struct Waiting {
    StoreTransaction transaction;  // without changes: of Then()
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
