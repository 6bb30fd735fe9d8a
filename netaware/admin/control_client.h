// A connection to the control API of a server, of this host or, by TLS, of another.
#pragma once

#include <memory>
#include <string>

#include "generated/control/vgpu.grpc.pb.h"
#include "netaware/admin/tls_tunnel.h"
#include "netaware/vgpu/vgpu_options.h"
#include "protocol/base/status.h"

namespace tessera {

// Where it is: --control, TESSERA_CONTROL, or beside the socket of --server or TESSERA_SERVER. unix:PATH or tls://HOST:PORT.
// kInvalidArgument: that is neither, or nobody has said where.
Result<std::string> ControlUrl(const VgpuOptions& options);

struct ControlConnection {
  std::unique_ptr<control::v1::VgpuService::Stub> stub;
  std::shared_ptr<TlsTunnel> tunnel;  // null: it is on this host
};

// Connects. kNotFound, kUnavailable, kTimedOut, kProtocolViolation: nobody is there, or somebody else; kPermissionDenied: this
// user may not, a certificate was not accepted, or the server is of a user whom this one does not trust
// (protocol/channel/server_user.h); kVersionMismatch; kInvalidArgument: the path is too long.
Result<ControlConnection> ConnectControl(const std::string& url, const VgpuOptions& options);

}  // namespace tessera
