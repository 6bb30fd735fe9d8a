// The node's end of the pair that it shares with its tesserad (protocol/node/node_line.h). One thread; nothing waits.
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
  static constexpr size_t kUnsentMax = 4'096;  // a daemon that reads none of so many has gone wrong

  explicit DaemonLine(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  short events() const;  // for poll(2)
  // What has come, and what could not go before. False: tesserad has gone, or sends what cannot be read.
  bool Tend(const std::function<void(TicketQuestion)>& asked);
  void Send(const TicketAnswer& answer);

 private:
  const UniqueFd socket_;
  std::deque<std::vector<std::byte>> unsent_;
};

}  // namespace tessera
