#include "netaware/admin/status_command.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/placer_watch.h"
#include "netaware/admin/status_text.h"
#include "netaware/admin/yaml_text.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/job/placer_path.h"
#include "programs/repeated_view.h"

namespace tessera {
namespace {

using control::v1::PlacementService;
using Channel = std::shared_ptr<grpc::Channel>;

// Asks the placer once, and makes the text to print.
grpc::Status Look(const Channel& channel, const PoolOptions& options, bool again, std::string* text) {
  const auto stub = PlacementService::NewStub(channel);
  const auto until = std::chrono::system_clock::now() + kPlacerAnswerWait;
  control::v1::ServerList servers;
  control::v1::GrantList grants;
  {
    grpc::ClientContext context;
    context.set_deadline(until);
    if (grpc::Status status = stub->ListServers(&context, {}, &servers); !status.ok()) return status;
  }
  grpc::ClientContext context;
  context.set_deadline(until);
  if (grpc::Status status = stub->ListGrants(&context, {}, &grants); !status.ok()) return status;
  const std::string placer = FindPlacer(options.placer);
  if (!IsData(options.output)) {
    *text = StatusText(placer, servers, grants, options.output == "wide");
  } else {
    const nlohmann::json status = StatusAsJson(placer, servers, grants);
    *text = again ? DataPart(status, options.output) : DataText(status, options.output);
  }
  return grpc::Status::OK;
}

}  // namespace

int StatusCommand(const PoolOptions& options) {
  const bool again = options.watch || options.command == "top";
  RepeatedView view(options.interval_s, options.watch ? RepeatedView::kEndless : options.count, !IsData(options.output));
  return AtPlacer(options, [&](const PlacerCall& call) {
    const auto once = [&](const Channel& channel, int* code) {
      while (*code == kExitOk && view.Next()) {
        std::string text;
        if (grpc::Status status = Look(channel, options, again, &text); !status.ok()) return status;
        *code = Print(view.Drawn(text));
      }
      return grpc::Status::OK;
    };
    if (again && view.is_endless()) {
      const auto ask = [&](const Channel& channel) {
        std::string text;
        return Look(channel, options, again, &text);
      };
      return WatchPlacer(options, call, {.once = once, .ask = ask});
    }
    int code = kExitOk;
    const grpc::Status status = once(call.channel(), &code);
    return status.ok() ? code : call.SayRefusal(status);
  });
}

}  // namespace tessera
