// A process that makes connections for a keeper. Looking up names and waiting for answers takes long. What is loaded and parsed
// for it stays out of the process that holds the sessions.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Makes a connection. It may take until `deadline_ns` (MonotonicNs); name lookup does not count. Any thread.
using DialFunction = std::function<Result<UniqueFd>(uint64_t deadline_ns)>;

// Answers a kDial: sends kDialled with the connection, or with the error, over `socket`.
void SayDialled(int socket, const Result<UniqueFd>& connection);

// Call it on one thread, in a process that has no other. The process that it starts has none of this one's descriptors, and is
// killed when this one ends.
class Dialler {
 public:
  // How many connections are made at once; more are refused.
  static constexpr int kAtOnceMax = 1024;

  explicit Dialler(DialFunction dial) : dial_(std::move(dial)) {}
  // Starts the process if it is not there, so that the first connection does not wait for it.
  Status Start();
  // Has `dial` called in that process, which says kDialled over `socket`. If it cannot be asked, this one says kDialled with the
  // reason. Starts another process in place of one that has ended; the one that ended hung up on those who had asked it.
  void Dial(int socket, uint64_t deadline_ns);
  // Call it after a SIGCHLD: takes note when the process has ended.
  void Reap();

 private:
  const DialFunction dial_;
  pid_t process_ = -1;
  UniqueFd line_;  // to the process, for questions
};

}  // namespace tessera
