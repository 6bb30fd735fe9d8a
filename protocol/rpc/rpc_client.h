// Connects to a gRPC service: unix:PATH on this host, or tls://HOST:PORT on another.
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

// One connection. Any thread.
struct RpcConnection {
  std::shared_ptr<grpc::Channel> channel;  // uses this connection alone: it does not connect again
  std::shared_ptr<TlsTunnel> tunnel;       // null: the service is on this host

  // Why a call failed, if the other end has told the reason by a TLS alert; Ok: it has not.
  Status failure() const { return tunnel == nullptr ? Status::Ok() : tunnel->failure(); }
};

// How long ConnectRpc() waits by default.
inline constexpr uint64_t kRpcConnectNs = 10'000'000'000;

// How a sandboxed process, which may neither open files nor connect, has this done for it (protocol/keeper/helper.h). Each
// function is as in LinkOptions; if it is empty, the process does it itself.
struct RpcMeans {
  std::function<Result<UniqueFd>(const std::string& path)> open_file = {};
  DialSocket dial = {};  // does what DialRpc() does
};

// Connects to `url`. Waits `wait_ns` at most; only the system's look-up of a host name may take longer. `when_absent`: what the
// user can do if nobody listens, as the end of the error's sentence. Any thread. Errors:
//   kNotFound, kUnavailable, kTimedOut, kProtocolViolation   nobody listens there, or something else does
//   kPermissionDenied   this user may not connect, a certificate was not accepted, or the listener runs as a user whom this one
//                       does not trust (protocol/channel/server_user.h)
//   kVersionMismatch
//   kInvalidArgument    the address has neither form, or its path is too long
Result<RpcConnection> ConnectRpc(const std::string& url, const KeyFiles& keys, const RpcPeer& peer,
                                 const std::string& when_absent, uint64_t wait_ns = kRpcConnectNs, const RpcMeans& means = {});

// Makes the connection only, and sends nothing on it. Waits until `deadline_ns` (MonotonicNs). Errors are those of ConnectRpc()
// without those about certificates. Any thread.
Result<UniqueFd> DialRpc(const std::string& url, const RpcPeer& peer, const std::string& when_absent, uint64_t deadline_ns);

}  // namespace tessera
