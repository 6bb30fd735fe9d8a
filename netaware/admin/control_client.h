// A connection to the control API of a server, of this host or, by TLS, of another.
#pragma once

#include <memory>
#include <string>

#include "generated/control/vgpu.grpc.pb.h"
#include "netaware/vgpu/vgpu_options.h"
#include "protocol/base/status.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

// Where it is: --control, TESSERA_CONTROL, or beside the socket of --server or TESSERA_SERVER. unix:PATH or tls://HOST:PORT.
// kInvalidArgument: that is neither, or nobody has said where.
Result<std::string> ControlUrl(const VgpuOptions& options);

struct ControlConnection {
  RpcConnection rpc;
  std::unique_ptr<control::v1::VgpuService::Stub> stub;
};

// Connects; errors as of ConnectRpc().
Result<ControlConnection> ConnectControl(const std::string& url, const VgpuOptions& options);

}  // namespace tessera
