// Where a callback thread of the driver waits for the client's answer to a host-function request.
//
//   const uint64_t id = worker.answers().Open();
//   worker.SendNotice(NoticeKind::kHostFunction, request with id);
//   if (!worker.answers().Wait(id)) ...            // the session ended meanwhile
//
// A thread of its own reads the channel's `answers` ring, asleep while nothing comes: an answer must not queue behind
// launches in `commands`, because the driver's full queue may be what the executor is blocked on.
#pragma once

#include <atomic>
#include <cstdint>
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
  uint64_t Open();
  // Blocks until the answer to `id` arrived (true) or the session ended (false), and closes `id`. Any thread.
  bool Wait(uint64_t id);
  // Gives up `id` without waiting (the request could not be sent).
  void Cancel(uint64_t id);

  // Wakes every waiter and ends the thread. Idempotent.
  void Stop();
};

}  // namespace tessera
