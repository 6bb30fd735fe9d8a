// A process of a keeper's own that connects. Looking up names and waiting for answers take long, and what is loaded and parsed
// for it has nothing to do with the sessions that the keeper holds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Makes a connection until `deadline_ns` (MonotonicNs; name lookup apart). Any thread.
using DialFunction = std::function<Result<UniqueFd>(uint64_t deadline_ns)>;

// Says kDialled over `socket`: what came of a kDial.
void SayDialled(int socket, const Result<UniqueFd>& connection);

// One thread, in a process that has no other. The process that it starts has none of this one's descriptors, and is killed when
// this one ends.
class Dialler {
 public:
  // Connections that are being made at once.
  static constexpr int kAtOnceMax = 1024;

  explicit Dialler(DialFunction dial) : dial_(std::move(dial)) {}
  // Starts the process, so that the first connection does not wait for it, if it is not there.
  Status Start();
  // Has `dial` called there, and kDialled said over `socket`; says why not, else. Starts another process in the place of one that
  // has ended, whose questions are hung up on.
  void Dial(int socket, uint64_t deadline_ns);
  // For SIGCHLD.
  void Reap();

 private:
  const DialFunction dial_;
  pid_t process_ = -1;
  UniqueFd line_;  // on which it is asked
};

}  // namespace tessera
