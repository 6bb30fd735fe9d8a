#include "netaware/admin/place_command.h"

#include "generated/control/admin.grpc.pb.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/pool_text.h"
#include "netaware/admin/yaml_text.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/job/place_request.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

int Show(const control::v1::PlanAnswer& answer, const PoolOptions& options) {
  const std::string reason = Printable(answer.reason(), kPlacerSentenceBytesMax);
  control::v1::GrantState grant;
  *grant.mutable_parts() = answer.parts();
  if (IsData(options.output)) {
    const nlohmann::json json = {
        {"outcome", Printable(answer.outcome())}, {"reason", reason}, {"parts", AsJson(grant).at("parts")}};
    if (const int code = Print(DataText(json, options.output)); code != kExitOk) return code;
  }
  if (answer.outcome() == "waits") return Say(kExitLate, "the job would wait: " + reason);
  if (answer.outcome() != "placed") return Say(kExitRefused, "the pool has no GPU for such a job: " + reason);
  return IsData(options.output) ? kExitOk : Print("the job would have " + GpusOf(grant) + "\n");
}

}  // namespace

int PlaceCommand(const PoolOptions& options) {
  return AtPlacer(options, [&](const PlacerCall& call) {
    grpc::ClientContext context;
    call.Bound(&context);
    control::v1::PlanAnswer answer;
    const auto request = RequestOf<control::v1::PlaceRequest>(options.job);
    const grpc::Status status = control::v1::AdminService::NewStub(call.channel())->Plan(&context, request, &answer);
    return status.ok() ? Show(answer, options) : call.SayRefusal(status);
  });
}

}  // namespace tessera
