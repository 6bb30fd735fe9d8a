#include "netaware/admin/pool_command.h"

#include <fmt/core.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/admin/get_command.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/pool_text.h"
#include "netaware/admin/yaml_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::GrantState;
using control::v1::PlacementService;

// One command `tessera grants` at one placer.
class PoolCall {
 public:
  PoolCall(const PoolOptions& options, const PlacerCall& call)
      : options_(options), call_(call), stub_(PlacementService::NewStub(call.channel())) {}

  int Release() {
    // Reads the grant before its end: an ended grant has no GPUs any more.
    control::v1::GetGrantRequest get;
    get.set_grant(Printable(options_.grant));
    GrantState grant;
    {
      grpc::ClientContext context;
      call_.Bound(&context);
      const grpc::Status status = stub_->GetGrant(&context, get, &grant);
      if (!status.ok()) return call_.SayRefusal(status);
    }
    grpc::ClientContext context;
    call_.Bound(&context);
    control::v1::ReleaseRequest request;
    request.set_grant(get.grant());
    request.set_reason(options_.reason);
    GrantState ended;
    const grpc::Status status = stub_->Release(&context, request, &ended);
    if (!status.ok()) return call_.SayRefusal(status);
    const std::string before = grant.state();
    grant.set_state(ended.state());
    grant.set_reason(ended.reason());
    if (IsData(options_.output)) return Print(DataText(AsJson(grant), options_.output));
    return Print(fmt::format("grant {} of {} is {}; it {}\n", Printable(grant.grant()), Printable(grant.holder()),
                             Printable(grant.state()),
                             grant.parts().empty() ? "was " + Printable(before) : "had " + GpusOf(grant)));
  }

  const PoolOptions& options_;
  const PlacerCall& call_;
  const std::unique_ptr<PlacementService::Stub> stub_;
};

}  // namespace

int PoolCommand(const PoolOptions& options) {
  if (options.command == "get") return GetCommand(options);
  return AtPlacer(options, [&](const PlacerCall& call) { return PoolCall(options, call).Release(); });
}

}  // namespace tessera
