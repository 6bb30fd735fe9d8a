// Between the messages of a placer and what it decides with. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "generated/control/admin.pb.h"
#include "generated/control/node.pb.h"
#include "generated/control/placement.pb.h"
#include "netaware/service/placer_core.h"

namespace tessera {

// kInvalidArgument: the field, its value and form.
Result<PlacerCore::Ask> AskOf(const control::v1::PlaceRequest& request, std::string holder);
// `with_tickets`: for its holder.
control::v1::GrantState MessageOf(const GrantView& view, const PlacerCore& core, bool with_tickets);
control::v1::ServerCordon MessageOf(const ServerCordon& cordon, int64_t now_ms);
// Of what `ask` would be given.
control::v1::PlanAnswer MessageOf(const Placement& placement, const PlacerCore::Ask& ask, const PlacerCore& core);
control::v1::ServerList ServersOf(const PlacerCore& core, int64_t now_ms);

Result<JoiningNode> NodeOf(const control::v1::Registration& registration);
// `gpus`: of the server.
Result<NodeState> NodeStateOf(const control::v1::Beat& beat, size_t gpus);
control::v1::ToNode MessageOf(const PlacerOrder& order);

// Of 32 digits in small letters; kInvalidArgument: it is none.
Result<GrantId> GrantOf(const std::string& text);
// For who asks for a protected job without the right to it.
grpc::Status NotProtected(const std::string& holder);
grpc::Status GrpcStatusOf(const Status& status);

}  // namespace tessera
