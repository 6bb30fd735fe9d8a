// `tessera vgpu usage`, carried out with the control API.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "generated/control/vgpu.grpc.pb.h"
#include "netaware/vgpu/vgpu_options.h"

namespace tessera {

// The request at the time `now` (seconds since 1970). The options have to pass CheckVgpuOptions().
control::v1::UsageRequest UsageRequestOf(const VgpuOptions& options, int64_t now);
// The text to print for the answer: a table, or JSON.
std::string UsageText(const VgpuOptions& options, const control::v1::UsageRequest& request,
                      const control::v1::UsageReport& report);

}  // namespace tessera
