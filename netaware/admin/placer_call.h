// A command at a placer: the connection, the time until which it has answered, and what is said where it does not. One thread.
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

// How long a placer may take to answer.
inline constexpr std::chrono::seconds kPlacerAnswerWait(5);

// A sentence on stderr. Returns `code`.
int Say(int code, const std::string& sentence);
// What to say of a connection that was not made: the exit code and the sentence.
std::pair<int, std::string> ProblemOf(const Status& connection);
// On stdout. Returns kExitOk; else kExitInternal, with a sentence.
int Print(const std::string& text);

class PlacerCall {
 public:
  PlacerCall(std::string url, std::chrono::system_clock::time_point until, RpcConnection connection)
      : url_(std::move(url)), until_(until), connection_(std::move(connection)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return connection_.channel; }
  // The calls of a command have one end.
  void Bound(grpc::ClientContext* context) const { context->set_deadline(until_); }
  // What the placer, or whoever is there, says: the exit code and the sentence.
  std::pair<int, std::string> ProblemOf(const grpc::Status& status) const;
  // The same on stderr. Returns the exit code.
  int SayRefusal(const grpc::Status& status) const;

 private:
  const std::string url_;
  const std::chrono::system_clock::time_point until_;
  const RpcConnection connection_;
};

// Does `command` at the placer that is meant, and returns what it returns; or a CliExitCode with one sentence on stderr.
// kExitNoPlacer after 5 s at most.
int AtPlacer(const PoolOptions& options, const std::function<int(const PlacerCall& call)>& command);

}  // namespace tessera
