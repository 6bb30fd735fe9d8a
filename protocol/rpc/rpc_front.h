// Takes the connections of listening sockets, and gives them to a gRPC server.
//
//   RpcFront front(*server, connections);
//   RETURN_IF_ERROR(front.Listen(std::move(unix_socket)));
//   front.ListenByTls(std::move(tcp_socket), keeper->Current(), "the placer");
//   RETURN_IF_ERROR(front.Follow(std::move(keeper)));
//
// A thread for each socket goes on until the process ends, as do the server and the connections; they come to an end when the
// process does, and are never destroyed.
#pragma once

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
  RpcFront(grpc::Server& server, RpcConnections& connections) : server_(server), connections_(connections) {}

  // A Unix stream socket: whoever connects is the user whom the kernel names. Errors: it has no thread.
  Status Listen(UniqueFd socket);
  // A TCP socket: whoever connects is the name in the certificate. `what`: for the log. The front, for TlsFront::Use().
  Result<TlsFront*> ListenByTls(UniqueFd socket, std::shared_ptr<const TlsIdentity> identity, std::string what);
  // Those of ListenByTls() go by the files of `keeper` from now on: when they change, whoever connects kKeysMs later meets the
  // new identity, and who has connected goes on. Files that cannot be used change nothing, with a line in the log. Once. Errors:
  // it has no thread.
  static constexpr int kKeysMs = 500;
  Status Follow(std::unique_ptr<TlsIdentityKeeper> keeper);

 private:
  std::vector<TlsFront*> by_tls_;
  grpc::Server& server_;
  RpcConnections& connections_;
};

}  // namespace tessera
