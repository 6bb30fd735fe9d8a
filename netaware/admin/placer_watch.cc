#include "netaware/admin/placer_watch.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "netaware/admin/pool_text.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kTryAgain(1), kConnectWait(5);

// True if the error may be temporary.
bool IsAway(const Status& status) {
  return status.code() != StatusCode::kPermissionDenied && status.code() != StatusCode::kVersionMismatch &&
         status.code() != StatusCode::kInvalidArgument;
}
bool IsAway(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::NOT_FOUND: return false;
    default: return true;
  }
}

}  // namespace

int WatchPlacer(const PoolOptions& options, const PlacerCall& call, const PlacerWatch& watch) {
  int code = kExitOk;
  grpc::Status status = watch.once(call.channel(), &code);
  if (code == kExitOk && !IsAway(status)) return call.SayRefusal(status);
  while (code == kExitOk) {
    const std::string url = FindPlacer(options.placer);
    const std::string at = url.empty() ? "the placer" : "the placer at " + Printable(url);
    const bool is_late = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (is_late) {
      Say(kExitOk, at + " has turned this away: " + Printable(status.error_message()) + "; it goes on with what is missing");
    } else {
      Say(kExitOk, at + " is not there any more: this waits until it is back");
    }
    for (;;) {
      std::this_thread::sleep_for(kTryAgain);
      Result<RpcConnection> rpc =
          ConnectRpc(FindPlacer(options.placer), {options.certificate, options.key, options.authority},
                     {.what = "placer", .program = "tessera-placer"}, "start it", std::chrono::nanoseconds(kConnectWait).count());
      // A permanent error: AtPlacer() connects once more, and prints the same error as any other command.
      const auto refused = [](const PlacerCall&) { return int{kExitOk}; };
      if (!rpc.ok() && !url.empty() && !IsAway(rpc.status())) return AtPlacer(options, refused);
      if (!rpc.ok()) continue;
      const PlacerCall again(url, std::chrono::system_clock::now() + kConnectWait, *rpc);
      status = watch.ask(again.channel());
      const Status failure = rpc->failure();
      if (!failure.ok() ? !IsAway(failure) : !IsAway(status)) return again.SayRefusal(status);
      if (!status.ok()) continue;
      if (!is_late) Say(kExitOk, at + " is back");
      status = watch.once(again.channel(), &code);
      if (code == kExitOk && !IsAway(status)) return again.SayRefusal(status);
      break;
    }
  }
  return code;
}

}  // namespace tessera
