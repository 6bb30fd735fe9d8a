// A connection to a gRPC service of this host, unix:PATH, or, by TLS, of another, tls://HOST:PORT.
//
//   Result<RpcConnection> connection = ConnectRpc(url, keys, {.what = "placer", .program = "tessera-placer", .start = "start
//   it"}); auto stub = PlacementService::NewStub(connection->channel);
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/rpc/tls_tunnel.h"

namespace tessera {

struct RpcConnection {
  std::shared_ptr<grpc::Channel> channel;  // of this connection alone: it is not made again when it ends
  std::shared_ptr<TlsTunnel> tunnel;       // null: it is on this host

  // What to say of a call that failed, where the other side has said why by TLS; Ok: it has not.
  Status failure() const { return tunnel == nullptr ? Status::Ok() : tunnel->failure(); }
};

inline constexpr uint64_t kRpcConnectNs = 10'000'000'000;

// Connects; waits `wait_ns` at most, but for the system's look-up of a host's name. kNotFound, kUnavailable, kTimedOut,
// kProtocolViolation: nobody is there, or somebody else; kPermissionDenied: this user may not, a certificate was not accepted, or
// whoever listens is of a user whom this one does not trust (protocol/channel/server_user.h); kVersionMismatch; kInvalidArgument:
// the address has neither form, or its path is too long. `when_absent`: what to do when nobody listens, for the sentence. Any
// thread.
Result<RpcConnection> ConnectRpc(const std::string& url, const KeyFiles& keys, const RpcPeer& peer,
                                 const std::string& when_absent, uint64_t wait_ns = kRpcConnectNs);

}  // namespace tessera
