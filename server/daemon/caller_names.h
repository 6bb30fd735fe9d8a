// Says to the broker whose a connection to the control API is, where the broker cannot tell: to a process in a user namespace, as
// of its sandbox, all users without a number there look alike (user_namespaces(7)).
//
// A message either way has one descriptor, a connection. The answer's bytes are the holder (protocol/wire/holder.h). One thread.
#pragma once

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class CallerNames {
 public:
  // For a broker that is started: its end of the line. What the one before has asked is forgotten.
  Result<UniqueFd> NewLine();
  // For poll(): readable when there is a question; -1 while no broker asks.
  int fd() const { return line_.get(); }
  // Answers what was asked. Who cannot be named, or has no room on the line, is turned away.
  void Answer();

 private:
  UniqueFd line_;
};

}  // namespace tessera
