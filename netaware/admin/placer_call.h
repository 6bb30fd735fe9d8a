// A command at a placer: the connection, the deadline for all answers, and the errors for people. One thread.
//
//   return AtPlacer(options, [&](const PlacerCall& call) {
//     grpc::ClientContext context;
//     call.Bound(&context);
//     const grpc::Status status = AdminService::NewStub(call.channel())->Cordon(&context, request, &answer);
//     return status.ok() ? Print(text) : call.SayRefusal(status);
//   });
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "netaware/pool/pool_options.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

// The placer's deadline for an answer.
inline constexpr std::chrono::seconds kPlacerAnswerWait(5);

// Prints a sentence on stderr. Returns `code`.
int Say(int code, const std::string& sentence);
// The exit code and the sentence for a failed connection.
std::pair<int, std::string> ProblemOf(const Status& connection);
// Prints on stdout. Returns kExitOk, or kExitInternal with a sentence on stderr.
int Print(const std::string& text);

class PlacerCall {
 public:
  PlacerCall(std::string url, std::chrono::system_clock::time_point until, RpcConnection connection)
      : url_(std::move(url)), until_(until), connection_(std::move(connection)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return connection_.channel; }
  // Sets the deadline, which all calls of a command share.
  void Bound(grpc::ClientContext* context) const { context->set_deadline(until_); }
  // The exit code and the sentence for a failed call.
  std::pair<int, std::string> ProblemOf(const grpc::Status& status) const;
  // Prints that sentence on stderr. Returns the exit code.
  int SayRefusal(const grpc::Status& status) const;

 private:
  const std::string url_;
  const std::chrono::system_clock::time_point until_;
  const RpcConnection connection_;
};

// Connects to the placer of `options`, calls `command` and returns its result. If that fails, returns a CliExitCode with one
// sentence on stderr; kExitNoPlacer after 5 s at most.
int AtPlacer(const PoolOptions& options, const std::function<int(const PlacerCall& call)>& command);

}  // namespace tessera
