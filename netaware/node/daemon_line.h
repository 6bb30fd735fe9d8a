// The node's end of its socket pair with tesserad (protocol/node/node_line.h). One thread; no call blocks.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "protocol/node/node_line.h"

namespace tessera {

class DaemonLine {
 public:
  static constexpr size_t kUnsentMax = 4'096;  // answers that wait for tesserad to read; further ones are dropped

  explicit DaemonLine(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  short events() const;  // for poll(2)
  // Sends the answers that did not fit before, then handles the questions that have arrived. False: tesserad has ended, or a
  // message cannot be received.
  bool Tend(const std::function<void(TicketQuestion)>& asked);
  void Send(const TicketAnswer& answer);

 private:
  const UniqueFd socket_;
  std::deque<std::vector<std::byte>> unsent_;
};

}  // namespace tessera
