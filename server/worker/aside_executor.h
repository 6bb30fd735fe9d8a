// Executes what the application's host functions ask of the driver (AnswerKind::kAside, protocol/wire/record.h): calls that
// must not stand in `commands` behind launches, on which the executor is blocked inside the driver until the function returns.
//
// A thread of its own, started at the first use, which never launches: it runs the calls that the spec marks `aside`, one after
// the other. None overtakes what the client says it depends on: it waits while the executor goes on, and is answered with
// kAsideBehind once that stands still. So an answer is never older than a record that the program had sent before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class Worker;

class AsideExecutor {
 public:
  // Calls waiting at once. A client has one thread for host functions, which waits for each reply.
  static constexpr size_t kQueuedMax = 64;
  // An executor that has finished no record for so long is taken to be blocked.
  static constexpr uint64_t kStandstillNs = 10'000'000;

  explicit AsideExecutor(Worker& worker) : worker_(worker) {}
  ~AsideExecutor();  // Stop()

  // Takes a record (header and message), not to be executed before record `after` of `commands` was. False when it is too short
  // or kQueuedMax are waiting. By AnswerHub, which Executor connects with it.
  bool Post(uint64_t after, std::span<const std::byte> record) EXCLUDES(mutex_);

  // Drops what waits, lets the call in hand finish, ends the thread. Idempotent.
  void Stop() EXCLUDES(mutex_);

 private:
  struct Item {
    uint64_t after = 0;
    std::vector<std::byte> record;
  };

  void Loop() EXCLUDES(mutex_);
  void Run(const Item& item);
  // Waits for the executor to have executed record `after`. False when it stands still, or the session has ended.
  bool Reached(uint64_t after) const;

  Worker& worker_;
  Mutex mutex_;
  ConditionVariable posted_;
  std::deque<Item> items_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
