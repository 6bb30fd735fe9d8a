// Takes records from the `commands` ring in order and has them executed. One thread, the one in Run(); it never waits for
// the GPU, and hands calls that may block in the driver to helper threads. What host functions ask goes to its AsideExecutor.
//
//   Executor executor(worker);
//   Status why = executor.Run();    // on the calling thread, until the session ends
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/status.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/record.h"
#include "server/worker/aside_executor.h"

namespace tessera {

class Worker;

class Executor {
 public:
  // `worker` outlives it. One for each.
  explicit Executor(Worker& worker);
  // Ends the session, and waits for the call of a host function that is inside the driver; a process that must not wait calls
  // _exit instead.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Until the client leaves, the socket hangs up or Worker::End() is called.
  // Ok for a client that left in order; kUnavailable, kProtocolViolation, ... otherwise.
  Status Run();

 private:
  void Loop();
  // Checks the header of a record that was copied out of the ring. False (and the session ends) when it is not what a
  // correct client sends.
  bool Check(const RecordHeader& header);
  // There is no record. True when there may be one now, or what the program waits for was answered; else it is time to sleep.
  bool AwaitOwn();
  void HandToHelper(const RecordHeader& header, std::span<const std::byte> message);

  Worker& worker_;
  AsideExecutor aside_;
  uint64_t last_sequence_ = 0;
  AdaptiveSpin old_spin_;  // for watches that are not young any more
};

}  // namespace tessera
