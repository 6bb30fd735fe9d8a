// The front of the control API: takes the connections of listening sockets, and speaks gRPC with them.
//
//   RETURN_IF_ERROR(ControlServer::Start({std::move(unix_socket), std::move(names), std::move(tls)}, queue, administrators)); //
//   in the sandbox
//
// gRPC begins with the first connection: a server whose API nobody uses has one sleeping thread more. All threads of the front
// are less urgent than the broker's.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/rpc/rpc_connections.h"
#include "server/broker/call_queue.h"

namespace tessera {

class UsageFront;

class ControlServer {
 public:
  // Administrators are the trusted; there are no nobodies.
  static constexpr RpcConnections::Bounds kConnections{.usual = {.of_holder = 16, .in_all = 64},
                                                       .trusted = {.of_holder = 64, .in_all = 64}};
  static constexpr RpcBounds kBounds{.message_bytes = 72 * 1024};  // VgpuCall::kTextBytesMax, and what is around it
  static constexpr int kNice = 5;                                  // more than the broker's

  // Where it listens; one of them may be invalid.
  struct Listeners {
    UniqueFd users;  // a Unix socket
    UniqueFd
        names;  // to the daemon, who names those that the kernel does not (server/daemon/caller_names.h); invalid: they have none
    UniqueFd tls;  // a TCP socket, for TLS with the keys that `queue` brings
  };
  // Starts a thread for each that goes on until the process ends; so do `queue` and `usage` (null: there are no usage records).
  // `administrators`: those of the VgpuApi behind it.
  static Status Start(Listeners listeners, CallQueue& queue, std::vector<std::string> administrators,
                      UsageFront* usage = nullptr);
};

}  // namespace tessera
