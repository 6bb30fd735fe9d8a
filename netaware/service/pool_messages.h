// Converts between the messages of a placer and the types of PlacerCore. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "generated/control/admin.pb.h"
#include "generated/control/node.pb.h"
#include "generated/control/placement.pb.h"
#include "netaware/service/placer_core.h"

namespace tessera {

// kInvalidArgument: a field is wrong; the sentence has its value and form.
Result<PlacerCore::Ask> AskOf(const control::v1::PlaceRequest& request, std::string holder);
// `with_tickets`: true in a message to the grant's holder.
control::v1::GrantState MessageOf(const GrantView& view, const PlacerCore& core, bool with_tickets);
control::v1::ServerCordon MessageOf(const ServerCordon& cordon, int64_t now_ms);
// The answer with the place that `ask` would get.
control::v1::PlanAnswer MessageOf(const Placement& placement, const PlacerCore::Ask& ask, const PlacerCore& core);
control::v1::ServerList ServersOf(const PlacerCore& core, int64_t now_ms);

Result<JoiningNode> NodeOf(const control::v1::Registration& registration);
// `gpus`: the number of the server's GPUs.
Result<NodeState> NodeStateOf(const control::v1::Beat& beat, size_t gpus);
control::v1::ToNode MessageOf(const PlacerOrder& order);

// Parses a grant's id, 32 digits in small letters. kInvalidArgument: `text` is none.
Result<GrantId> GrantOf(const std::string& text);
// The refusal of a protected job to a holder without that right.
grpc::Status NotProtected(const std::string& holder);
grpc::Status GrpcStatusOf(const Status& status);

}  // namespace tessera
