#include "netaware/admin/describe_command.h"

#include "generated/control/placement.grpc.pb.h"
#include "netaware/admin/describe_text.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/pool_text.h"
#include "netaware/admin/yaml_text.h"
#include "netaware/cli/exit_codes.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::PlacementService;

int DescribeGrant(const PoolOptions& options, const PlacerCall& call, PlacementService::Stub& placer) {
  grpc::ClientContext context;
  call.Bound(&context);
  control::v1::GetGrantRequest request;
  request.set_grant(Printable(options.name));
  control::v1::GrantState grant;
  if (const grpc::Status status = placer.GetGrant(&context, request, &grant); !status.ok()) return call.SayRefusal(status);
  return Print(IsData(options.output) ? DataText(AsJson(grant), options.output) : GrantText(grant));
}

int DescribePlace(const PoolOptions& options, const PlacerCall& call, PlacementService::Stub& placer) {
  control::v1::ServerList servers;
  control::v1::GrantList grants;
  {
    grpc::ClientContext context;
    call.Bound(&context);
    if (const grpc::Status status = placer.ListServers(&context, {}, &servers); !status.ok()) return call.SayRefusal(status);
  }
  grpc::ClientContext context;
  call.Bound(&context);
  if (const grpc::Status status = placer.ListGrants(&context, {}, &grants); !status.ok()) return call.SayRefusal(status);
  const bool is_server = options.what == "server";
  Result<nlohmann::json> found =
      is_server ? ServerAsJson(servers, grants, options.name) : GpuAsJson(servers, grants, options.name);
  if (!found.ok()) return Say(kExitRefused, found.status().message());
  if (!IsData(options.output)) return Print(is_server ? ServerText(*found) : GpuText(*found));
  found->erase("cordon_text");
  return Print(DataText(*found, options.output));
}

}  // namespace

int DescribeCommand(const PoolOptions& options) {
  return AtPlacer(options, [&](const PlacerCall& call) {
    const std::unique_ptr<PlacementService::Stub> placer = PlacementService::NewStub(call.channel());
    return options.what == "grant" ? DescribeGrant(options, call, *placer) : DescribePlace(options, call, *placer);
  });
}

}  // namespace tessera
