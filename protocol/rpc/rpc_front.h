// Takes the connections of listening sockets, and gives them to a gRPC server.
//
//   RpcFront front(*server, connections);
//   RETURN_IF_ERROR(front.Listen(std::move(unix_socket)));
//   RETURN_IF_ERROR(front.ListenByTls(std::move(tcp_socket), identity, "the placer"));
//
// A thread for each socket goes on until the process ends, as do the server and the connections; they come to an end when the
// process does, and are never destroyed.
#pragma once

#include <memory>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/rpc/rpc_connections.h"
#include "protocol/rpc/tls_front.h"

namespace tessera {

class RpcFront {
 public:
  RpcFront(grpc::Server& server, RpcConnections& connections) : server_(server), connections_(connections) {}

  // A Unix stream socket: whoever connects is the user whom the kernel names. Errors: it has no thread.
  Status Listen(UniqueFd socket);
  // A TCP socket: whoever connects is the name in the certificate. `what`: for the log. The front, for TlsFront::Use().
  Result<TlsFront*> ListenByTls(UniqueFd socket, std::shared_ptr<const TlsIdentity> identity, std::string what);

 private:
  grpc::Server& server_;
  RpcConnections& connections_;
};

}  // namespace tessera
