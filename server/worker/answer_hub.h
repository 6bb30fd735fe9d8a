// Where the client's answers to host-function requests arrive, and whoever waits for them hears of them.
//
//   const uint64_t id = worker.answers().Open();
//   worker.SendNotice(NoticeKind::kHostFunction, request with id);
//   if (!worker.answers().Wait(id)) ...            // the session ended meanwhile
//
// A thread of its own reads the channel's `answers` ring, asleep while nothing comes: an answer must not queue behind
// launches in `commands`, because the driver's full queue may be what the executor is blocked on. For the same reason the ring
// carries what host functions ask of the driver, which goes on to AsideExecutor (aside_executor.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <unordered_map>

#include "protocol/base/mutex.h"

namespace tessera {

class Channel;     // protocol/channel
class SessionEnd;  // session_end.h

class AnswerHub {
 public:
  // Both outlive it.
  AnswerHub(Channel& channel, SessionEnd& end);
  ~AnswerHub();  // Stop()

  // A new request number, never reused in the session; 0 when it has ended. How many may be open has no bound of its own:
  // each is a stream or a thread of the driver, of which there are as many as the driver gave the client.
  uint64_t Open() EXCLUDES(mutex_);
  // The same for a request that no thread waits for: `then` is called once, when the answer has come or the session has
  // ended, on a thread that must not be held up. Not called after Cancel().
  uint64_t Open(std::function<void()> then) EXCLUDES(mutex_);
  // Blocks until the answer to `id` arrived (true) or the session ended (false), and closes `id`. Any thread.
  bool Wait(uint64_t id) EXCLUDES(mutex_);
  // Gives up `id` without waiting (the request could not be sent).
  void Cancel(uint64_t id) EXCLUDES(mutex_);

  // What takes the client's changes to host memory (kHostChanges), in the order of the ring, so before the answers behind them.
  // It must not wait; false for a malformed message. Without it, none may come.
  void OnHostChanges(std::function<bool(std::span<const std::byte> changes)> take) EXCLUDES(mutex_);
  // Waits until so many messages of changes have been taken, or the session has ended. Any thread but the hub's own.
  void AwaitHostChanges(uint64_t messages) EXCLUDES(mutex_);

  // What takes the records that host functions ask for (kAside): not to be executed before record `after` of `commands` was. It
  // must not wait; false for one that a correct client does not send. Without it, none may come.
  void OnAside(std::function<bool(uint64_t after, std::span<const std::byte> record)> take) EXCLUDES(mutex_);

  // Wakes every waiter and ends the thread. The channel must have ended. Idempotent.
  void Stop() EXCLUDES(mutex_);

 private:
  struct Request {
    bool answered = false;
    std::function<void()> then{};  // empty: a thread is in Wait(), or soon will be
  };

  void Loop();
  // False when the record is not what a correct client sends.
  bool Take(std::span<const std::byte> record) EXCLUDES(mutex_);
  // Nobody answers any more.
  void ReleaseAll() EXCLUDES(mutex_);

  Channel& channel_;
  SessionEnd& end_;
  Mutex mutex_;
  ConditionVariable answered_;
  std::unordered_map<uint64_t, Request> open_ GUARDED_BY(mutex_);
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::function<bool(std::span<const std::byte>)> take_changes_ GUARDED_BY(mutex_);
  std::function<bool(uint64_t, std::span<const std::byte>)> take_aside_ GUARDED_BY(mutex_);
  uint64_t changes_taken_ GUARDED_BY(mutex_) = 0;  // messages
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera
