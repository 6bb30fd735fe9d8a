// Between the messages of protocol/control/vgpu.proto and what the broker's thread takes and gives. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <span>
#include <string>

#include "generated/control/vgpu.pb.h"
#include "server/broker/vgpu_api.h"

namespace tessera {

// `holder`: who calls.
VgpuCall CallOf(const control::v1::CreateRequest& request, std::string holder);
VgpuCall CallOf(const control::v1::UpdateRequest& request, std::string holder);
VgpuCall CallOf(const control::v1::DeleteRequest& request, std::string holder);
VgpuCall CallOf(const control::v1::ImportRequest& request, std::string holder);
VgpuCall CallOf(const control::v1::GetRequest& request, std::string holder);
VgpuCall CallOf(const control::v1::ListRequest& request, std::string holder);

// What goes out for an answer without an error.
void FillIn(const VgpuAnswer& answer, control::v1::Vgpu* message);
void FillIn(const VgpuAnswer& answer, control::v1::VgpuList* message);

grpc::Status GrpcStatusOf(const VgpuAnswer& answer);

}  // namespace tessera
