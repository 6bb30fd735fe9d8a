// Accepts the connections of listening sockets, and hands them to a gRPC server.
//
//   RpcFront front([&](const std::string& holder) -> grpc::Server& { return *server; }, connections);
//   RETURN_IF_ERROR(front.Listen(std::move(unix_socket)));
//   front.ListenByTls(std::move(tcp_socket), keeper->Current(), "the placer");
//   RETURN_IF_ERROR(front.Follow(std::move(keeper)));
//
// Each socket has a thread, which runs until the process ends. So the server and the connections must never be destroyed. One
// thread at a time may use a front.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/rpc/rpc_connections.h"
#include "protocol/rpc/tls_front.h"

namespace tessera {

class RpcFront {
 public:
  // Whose connections of `holder` are. Called by any thread of the front, several at once.
  using ServerOf = std::function<grpc::Server&(const std::string& holder)>;
  RpcFront(ServerOf server_of, RpcConnections& connections) : server_of_(std::move(server_of)), connections_(connections) {}

  // Accepts on a Unix stream socket. The holder of a connection is the user whom the kernel names. Error: the thread cannot
  // start.
  Status Listen(UniqueFd socket);
  // Accepts on a TCP socket. The holder of a connection is the name in its certificate. `what`: the service's name for the log.
  // Returns the front, for TlsFront::Use(). Error: the front cannot be made, or the thread cannot start.
  Result<TlsFront*> ListenByTls(UniqueFd socket, std::shared_ptr<const TlsIdentity> identity, std::string what);
  // Makes the sockets of ListenByTls() follow the key files of `keeper`. When the files change, connections that begin kKeysMs
  // later meet the new identity; open ones go on. Files that cannot be used change nothing, and the log says so. Call it once,
  // after ListenByTls(). Error: the thread cannot start.
  static constexpr int kKeysMs = 500;
  Status Follow(std::unique_ptr<TlsIdentityKeeper> keeper);

 private:
  std::vector<TlsFront*> by_tls_;
  const ServerOf server_of_;
  RpcConnections& connections_;
};

}  // namespace tessera
