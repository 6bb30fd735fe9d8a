// A connection to a gRPC service of this host, unix:PATH, or, by TLS, of another, tls://HOST:PORT.
//
//   Result<RpcConnection> connection = ConnectRpc(url, keys, {.what = "placer", .program = "tessera-placer"}, "start it");
//   auto stub = PlacementService::NewStub(connection->channel);
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
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

// How a process in a sandbox, which may neither open files nor connect, does so all the same (protocol/keeper/helper.h). Each as
// in LinkOptions; empty: as any process does.
struct RpcMeans {
  std::function<Result<UniqueFd>(const std::string& path)> open_file = {};
  DialSocket dial = {};  // as DialRpc()
};

// Connects; waits `wait_ns` at most, but for the system's look-up of a host's name. kNotFound, kUnavailable, kTimedOut,
// kProtocolViolation: nobody is there, or somebody else; kPermissionDenied: this user may not, a certificate was not accepted, or
// whoever listens is of a user whom this one does not trust (protocol/channel/server_user.h); kVersionMismatch; kInvalidArgument:
// the address has neither form, or its path is too long. `when_absent`: what to do when nobody listens, for the sentence. Any
// thread.
Result<RpcConnection> ConnectRpc(const std::string& url, const KeyFiles& keys, const RpcPeer& peer,
                                 const std::string& when_absent, uint64_t wait_ns = kRpcConnectNs, const RpcMeans& means = {});

// The connection alone, on which nothing was said, until `deadline_ns` (MonotonicNs). Errors as above, but for those of
// certificates.
Result<UniqueFd> DialRpc(const std::string& url, const RpcPeer& peer, const std::string& when_absent, uint64_t deadline_ns);

}  // namespace tessera
