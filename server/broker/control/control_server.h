// The front of the control API: takes the connections of a listening Unix socket, and speaks gRPC with them.
//
//   RETURN_IF_ERROR(ControlServer::Start(std::move(listener), queue, administrators));    // in the sandbox
//
// gRPC begins with the first connection: a server whose API nobody uses has one sleeping thread more. All threads of the front
// are less urgent than the broker's.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/broker/call_queue.h"

namespace tessera {

class UsageFront;

class ControlServer {
 public:
  static constexpr size_t kConnectionsMax = 64;
  static constexpr size_t kConnectionsOfUserMax = 16;  // but root's
  static constexpr int kMessageBytesMax = 64 * 1024;
  static constexpr int kCallsOfConnectionMax = 16;
  static constexpr int kIdleMs = 60'000;       // a connection without a call is closed then
  static constexpr int kKeepaliveMs = 20'000;  // and whoever does not answer a ping,
  static constexpr int kAnswerMs = 10'000;     // for so long
  static constexpr int kNice = 5;              // more than the broker's

  // Starts a thread that goes on until the process ends; so do `queue` and `usage` (null: there are no usage records).
  // `administrators`: those of the VgpuApi behind it.
  static Status Start(UniqueFd listener, CallQueue& queue, std::vector<std::string> administrators, UsageFront* usage = nullptr);
};

}  // namespace tessera
