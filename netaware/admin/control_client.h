// A connection to a server's control API: on this host, or on another host by TLS.
#pragma once

#include <memory>
#include <string>

#include "generated/control/vgpu.grpc.pb.h"
#include "netaware/vgpu/vgpu_options.h"
#include "protocol/base/status.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

// Returns the API's address, unix:PATH or tls://HOST:PORT: --control, else TESSERA_CONTROL, else the socket beside that of
// --server or TESSERA_SERVER. kInvalidArgument: the address has another form, or none is given.
Result<std::string> ControlUrl(const VgpuOptions& options);

struct ControlConnection {
  RpcConnection rpc;
  std::unique_ptr<control::v1::VgpuService::Stub> stub;
};

// Connects; errors as from ConnectRpc().
Result<ControlConnection> ConnectControl(const std::string& url, const VgpuOptions& options);

}  // namespace tessera
