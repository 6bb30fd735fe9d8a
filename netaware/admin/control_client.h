// A connection to the control API of a server of this host.
#pragma once

#include <memory>
#include <string>

#include "generated/control/vgpu.grpc.pb.h"
#include "netaware/vgpu/vgpu_options.h"
#include "protocol/base/status.h"

namespace tessera {

// Where it is: --control, TESSERA_CONTROL, or beside the socket of --server or TESSERA_SERVER. The path. kInvalidArgument: that
// is no unix:PATH, or nobody has said where.
Result<std::string> ControlPath(const VgpuOptions& options);

// Connects. kNotFound, kUnavailable: nobody is there; kPermissionDenied: this user may not, or the server
// is of a user whom this one does not trust (protocol/channel/server_user.h); kInvalidArgument: the path is too long.
Result<std::unique_ptr<control::v1::VgpuService::Stub>> ConnectControl(const std::string& path);

}  // namespace tessera
