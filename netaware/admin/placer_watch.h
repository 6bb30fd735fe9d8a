// A command that continues when the placer is away for a while. Main thread.
//
//   return WatchPlacer(options, call,
//                      {.once = [&](const auto& channel, int* code) { ... }, .ask = [&](const auto& channel) { ... }});
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>

#include "netaware/admin/placer_call.h"
#include "netaware/pool/pool_options.h"

namespace tessera {

struct PlacerWatch {
  // Runs until the placer goes away or refuses, and returns that status. If it sets `*code` to another value than kExitOk, the
  // command ends with that code.
  std::function<grpc::Status(const std::shared_ptr<grpc::Channel>& channel, int* code)> once;
  // Ok if the placer answers.
  std::function<grpc::Status(const std::shared_ptr<grpc::Channel>& channel)> ask;
};

// Reports on stderr that the placer is lost, retries every second, and reports that it is back. Returns the exit code when the
// placer refuses, or when `once` has ended the command.
int WatchPlacer(const PoolOptions& options, const PlacerCall& call, const PlacerWatch& watch);

}  // namespace tessera
