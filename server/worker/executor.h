// Takes records from the `commands` ring in order and has them executed. One thread, the one in Run(); it never waits for
// the GPU, and hands calls that may block in the driver to helper threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/channel/waiting.h"
#include "protocol/wire/record.h"

namespace tessera {

class Worker;

class Executor {
 public:
  explicit Executor(Worker& worker);

  // Until the session ends.
  void Run();

  // What the executor and AsideExecutor have in common.
  // Flags and thread are such as a correct client sends.
  static bool IsWellFormed(const RecordHeader& header);
  // Ends the session because of this header.
  static void RefuseHeader(Worker& worker, const RecordHeader& header);
  // Executes one record on the calling thread: executor, helper or aside thread.
  static void Execute(Worker& worker, const RecordHeader& header, std::span<const std::byte> message);

 private:
  // Checks the header of a record that was copied out of the ring. False (and the session ends) when it is not what a
  // correct client sends.
  bool Check(const RecordHeader& header);
  // There is no record. True when there may be one now, or what the program waits for was answered; else it is time to sleep.
  bool AwaitOwn();
  void HandToHelper(const RecordHeader& header, std::span<const std::byte> message);

  Worker& worker_;
  uint64_t last_sequence_ = 0;
  AdaptiveSpin old_spin_;  // for watches that are not young any more
};

}  // namespace tessera
