// One end of a socket of messages whose other end reads when it comes to it: what it has no room for is kept, and sent in order
// when there is. So nobody waits, and nothing is lost. One thread.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class MessageLine {
 public:
  // Begins anew: what was kept is forgotten.
  void Open(UniqueFd socket);
  void Close() { Open(UniqueFd()); }
  bool is_open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  // For poll(): readable, or there is room for what is kept (Flush()); -1 while it is closed.
  pollfd watched() const;

  // `fds` stay the caller's; those of a message that is kept are copied meanwhile. Not while it is closed. kUnavailable: the
  // other end is closed. Errors of the system: the message is lost.
  Status Send(std::span<const std::byte> message, std::span<const int> fds);
  // Sends what is kept, as far as there is room. What the system refuses for another reason is lost, and the log says so.
  void Flush();
  size_t kept() const { return kept_.size(); }

 private:
  struct Kept {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };

  UniqueFd socket_;
  std::deque<Kept> kept_;
};

}  // namespace tessera
