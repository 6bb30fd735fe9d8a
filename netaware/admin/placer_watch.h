// A command that goes on at a placer, also when that is away for a while. The main thread's.
//
//   return WatchPlacer(options, call, {.once = [&](const auto& channel, int* code) { ... }, .ask = [&](const auto& channel) { ...
//   }});
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>

#include "netaware/admin/placer_call.h"
#include "netaware/pool/pool_options.h"

namespace tessera {

struct PlacerWatch {
  // Goes on until the placer has gone or refuses: how it ended. `*code` other than kExitOk: that is the command's end.
  std::function<grpc::Status(const std::shared_ptr<grpc::Channel>& channel, int* code)> once;
  // Whether it answers.
  std::function<grpc::Status(const std::shared_ptr<grpc::Channel>& channel)> ask;
};

// Tells on stderr when the placer is lost and when it is back, and tries each second meanwhile. Returns the exit code when it
// refuses, or `once` has ended the command.
int WatchPlacer(const PoolOptions& options, const PlacerCall& call, const PlacerWatch& watch);

}  // namespace tessera
