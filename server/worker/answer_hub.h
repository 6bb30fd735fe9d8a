// Where a callback thread of the driver waits for the client's answer to a host-function request.
//
//   const uint64_t id = worker.answers().Open();
//   worker.SendNotice(NoticeKind::kHostFunction, request with id);
//   if (!worker.answers().Wait(id)) ...            // the session ended meanwhile
//
// A thread of its own reads the channel's `answers` ring, asleep while nothing comes: an answer must not queue behind
// launches in `commands`, because the driver's full queue may be what the executor is blocked on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <unordered_map>

#include "protocol/base/mutex.h"

namespace tessera {

class Worker;

class AnswerHub {
 public:
  // Requests open at once. The driver runs one host function per stream at a time, so this is far beyond need.
  static constexpr size_t kOpenMax = 4096;

  explicit AnswerHub(Worker& worker);
  ~AnswerHub();  // Stop()

  // A new request number, never 0 and never reused in the session; 0 when kOpenMax are open.
  uint64_t Open() EXCLUDES(mutex_);
  // Blocks until the answer to `id` arrived (true) or the session ended (false), and closes `id`. Any thread.
  bool Wait(uint64_t id) EXCLUDES(mutex_);
  // Gives up `id` without waiting (the request could not be sent).
  void Cancel(uint64_t id) EXCLUDES(mutex_);

  // What takes the client's changes to host memory (kHostChanges), in the order of the ring, so before the answers behind them.
  // It must not wait; false for a malformed message. Without it, none may come. And what sends the changes of this side.
  void OnHostChanges(std::function<bool(std::span<const std::byte> changes)> take, std::function<void()> send)
      EXCLUDES(mutex_);
  // Has the changes of this side sent: what the client is asked to run next sees them. Any thread that may send notices.
  void SendHostChanges() EXCLUDES(mutex_);

  // Wakes every waiter and ends the thread. The channel must have ended. Idempotent.
  void Stop() EXCLUDES(mutex_);

 private:
  void Loop();
  // False when the record is not what a correct client sends.
  bool Take(std::span<const std::byte> record) EXCLUDES(mutex_);

  Worker& worker_;
  Mutex mutex_;
  ConditionVariable answered_;
  std::unordered_map<uint64_t, bool> open_ GUARDED_BY(mutex_);  // request, answered
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::function<bool(std::span<const std::byte>)> take_changes_ GUARDED_BY(mutex_);
  std::function<void()> send_changes_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera
