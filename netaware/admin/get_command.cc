#include "netaware/admin/get_command.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <thread>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/placer_watch.h"
#include "netaware/admin/pool_changes.h"
#include "netaware/admin/pool_text.h"
#include "netaware/admin/yaml_text.h"
#include "netaware/cli/exit_codes.h"
#include "programs/repeated_view.h"

namespace tessera {
namespace {

using control::v1::PlacementService;
using Channel = std::shared_ptr<grpc::Channel>;

constexpr std::chrono::seconds kPause(1);

grpc::Status Look(const Channel& channel, const PoolOptions& options, PoolView* view) {
  const auto stub = PlacementService::NewStub(channel);
  const bool is_wide = options.output == "wide";
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPlacerAnswerWait);
  view->word = options.what;
  if (options.what == "grants" || options.what == "requests") {
    control::v1::GrantList list;
    const grpc::Status status = stub->ListGrants(&context, {}, &list);
    if (options.what == "requests") list = WaitingOf(list);
    view->key = "grant";
    view->list = AsJson(list)["grants"];
    view->rows = options.what == "requests" ? RequestsRows(list) : GrantsRows(list, is_wide);
    return status;
  }
  control::v1::ServerList list;
  const grpc::Status status = stub->ListServers(&context, {}, &list);
  const bool is_servers = options.what == "servers";
  view->key = is_servers ? "server" : "uuid";
  view->list = is_servers ? ServersAsJson(list)["servers"] : GpusAsJson(list)["gpus"];
  view->rows = is_servers ? ServersRows(list, is_wide) : GpusRows(list, is_wide);
  return status;
}

int Watch(const PoolOptions& options, const PlacerCall& call) {
  const RepeatedView screen(1, RepeatedView::kEndless, !IsData(options.output));
  PoolChanges changes;
  const auto once = [&](const Channel& channel, int* code) {
    for (;;) {
      PoolView view;
      if (grpc::Status status = Look(channel, options, &view); !status.ok()) return status;
      std::string text = changes.Of(view, options.output);
      if (screen.redraws() && !text.empty()) text = screen.Drawn(TextOf(view, options.output));
      if (!text.empty()) *code = Print(text);
      if (*code != kExitOk) return grpc::Status::OK;
      std::this_thread::sleep_for(kPause);
    }
  };
  const auto ask = [&](const Channel& channel) {
    PoolView view;
    return Look(channel, options, &view);
  };
  return WatchPlacer(options, call, {.once = once, .ask = ask});
}

}  // namespace

int GetCommand(const PoolOptions& options) {
  return AtPlacer(options, [&](const PlacerCall& call) {
    if (options.watch) return Watch(options, call);
    PoolView view;
    if (const grpc::Status status = Look(call.channel(), options, &view); !status.ok()) return call.SayRefusal(status);
    return Print(TextOf(view, options.output));
  });
}

}  // namespace tessera
