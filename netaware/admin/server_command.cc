#include "netaware/admin/server_command.h"

#include "generated/control/admin.grpc.pb.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/server_text.h"
#include "netaware/admin/yaml_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::AdminService;

grpc::Status Ask(const PoolOptions& options, AdminService::Stub& placer, grpc::ClientContext* context,
                 control::v1::ServerChange* change) {
  // No server's name has unprintable characters: the placer then answers that it has no such server.
  const std::string server = Printable(options.server);
  if (options.command == "cordon") {
    control::v1::CordonRequest request;
    request.set_server(server);
    request.set_reason(options.reason);
    return placer.Cordon(context, request, change);
  }
  if (options.command == "uncordon") {
    control::v1::UncordonRequest request;
    request.set_server(server);
    return placer.Uncordon(context, request, change);
  }
  if (options.command == "remove") {
    control::v1::RemoveRequest request;
    request.set_server(server);
    return placer.Remove(context, request, change);
  }
  control::v1::DrainRequest request;
  request.set_server(server);
  request.set_reason(options.reason);
  if (options.deadline_ms) request.set_deadline_ms(*options.deadline_ms);
  request.set_dry_run(options.dry_run);
  return placer.Drain(context, request, change);
}

}  // namespace

int ServerCommand(const PoolOptions& options) {
  return AtPlacer(options, [&](const PlacerCall& call) {
    const std::unique_ptr<AdminService::Stub> placer = AdminService::NewStub(call.channel());
    grpc::ClientContext context;
    call.Bound(&context);
    control::v1::ServerChange change;
    if (const grpc::Status status = Ask(options, *placer, &context, &change); !status.ok()) return call.SayRefusal(status);
    if (IsData(options.output)) return Print(DataText(AsJson(change, options), options.output));
    return Print(Describe(change, options));
  });
}

}  // namespace tessera
