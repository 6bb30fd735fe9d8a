// Users of this host who connect to the control API. The daemon accepts them, and says to the broker whose each connection is: to
// a broker in the user namespace of its sandbox all users but its own look alike.
//
// One thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <utility>

#include "protocol/base/shortage.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {

class ControlCallers {
 public:
  // Accepted before others are looked at again.
  static constexpr int kTakenAtOnceMax = 16;

  explicit ControlCallers(UnixListener listener) : listener_(std::move(listener)) {}

  // For a broker that is started: its end of the line. A message of it is a holder (protocol/wire/holder.h), with a connection of
  // that one's that does not block. Who was on the way to the broker before is turned away.
  Result<UniqueFd> NewLine();
  // What Pass() waits for. While no broker runs, or the one that does has no room, callers wait in the kernel's queue.
  pollfd watched() const;
  // When to look at watched() again (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const;
  // Passes on who waits.
  void Pass();

 private:
  // Whether the broker takes another one now. Without a broker there is no line from then on.
  bool HasRoom();

  UnixListener listener_;
  UniqueFd line_;
  bool full_ = false;
  Shortage accepting_{"accepting callers of the control API", "raise the limits of tesserad (ulimit -n), or end sessions"};
};

}  // namespace tessera
