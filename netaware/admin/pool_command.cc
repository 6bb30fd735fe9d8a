#include "netaware/admin/pool_command.h"

#include <fmt/core.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/admin/pool_text.h"
#include "netaware/admin/vgpu_text.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/printable.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {
namespace {

using control::v1::GrantState;
using control::v1::PlacementService;

constexpr std::chrono::seconds kAnswerWait(5);

int Say(int code, const std::string& sentence) {
  std::fprintf(stderr, "tessera: %s\n", sentence.c_str());
  return code;
}

int SayConnection(const Status& status) {
  switch (status.code()) {
    case StatusCode::kPermissionDenied: return Say(kExitPermission, status.message());
    case StatusCode::kVersionMismatch: return Say(kExitOtherVersion, status.message());
    case StatusCode::kInvalidArgument: return Say(kExitUnknownScheme, status.message());
    default: return Say(kExitNoPlacer, status.message());
  }
}

int Print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return kExitOk;
  return Say(kExitInternal, "the answer could not be written to stdout");
}

// One command at one placer: a connection, and a time until which it has answered.
class PoolCall {
 public:
  PoolCall(const PoolOptions& options, const std::string& url, std::chrono::system_clock::time_point until,
           RpcConnection connection)
      : options_(options),
        url_(url),
        until_(until),
        connection_(std::move(connection)),
        stub_(PlacementService::NewStub(connection_.channel)) {}

  int Run() {
    if (options_.command == "grants") return Release();
    return options_.what == "grants" ? GetGrants() : GetServers();
  }

 private:
  int GetServers() {
    grpc::ClientContext context;
    context.set_deadline(until_);
    control::v1::ServerList list;
    const grpc::Status status = stub_->ListServers(&context, {}, &list);
    if (!status.ok()) return SayRefusal(status);
    const bool is_wide = options_.output == "wide";
    if (options_.what == "servers")
      return Print(options_.output == "json" ? Text(ServersAsJson(list), 2) : ServersText(list, is_wide));
    return Print(options_.output == "json" ? Text(GpusAsJson(list), 2) : GpusText(list, is_wide));
  }

  int GetGrants() {
    grpc::ClientContext context;
    context.set_deadline(until_);
    control::v1::GrantList list;
    const grpc::Status status = stub_->ListGrants(&context, {}, &list);
    if (!status.ok()) return SayRefusal(status);
    return Print(options_.output == "json" ? Text(AsJson(list), 2) : GrantsText(list, options_.output == "wide"));
  }

  int Release() {
    // What it was: one that has ended has no GPUs any more.
    control::v1::GetGrantRequest get;
    get.set_grant(Printable(options_.grant));
    GrantState grant;
    {
      grpc::ClientContext context;
      context.set_deadline(until_);
      const grpc::Status status = stub_->GetGrant(&context, get, &grant);
      if (!status.ok()) return SayRefusal(status);
    }
    grpc::ClientContext context;
    context.set_deadline(until_);
    control::v1::ReleaseRequest request;
    request.set_grant(get.grant());
    request.set_reason(options_.reason);
    GrantState ended;
    const grpc::Status status = stub_->Release(&context, request, &ended);
    if (!status.ok()) return SayRefusal(status);
    const std::string before = grant.state();
    grant.set_state(ended.state());
    grant.set_reason(ended.reason());
    if (options_.output == "json") return Print(Text(AsJson(grant), 2));
    return Print(fmt::format("grant {} of {} is {}; it {}\n", Printable(grant.grant()), Printable(grant.holder()),
                             Printable(grant.state()),
                             grant.parts().empty() ? "was " + Printable(before) : "had " + GpusOf(grant)));
  }

  int SayRefusal(const grpc::Status& status) {
    // Who has connected by TLS hears only then that his certificate was not accepted.
    if (const Status failure = connection_.failure(); !failure.ok()) return SayConnection(failure);
    const std::string sentence = Printable(status.error_message(), kPlacerSentenceBytesMax);
    switch (status.error_code()) {
      case grpc::StatusCode::INVALID_ARGUMENT: return Say(kExitUsage, sentence);
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::UNAUTHENTICATED: return Say(kExitPermission, sentence);
      case grpc::StatusCode::UNIMPLEMENTED: return Say(kExitOtherVersion, "the placer is of another release: " + sentence);
      case grpc::StatusCode::NOT_FOUND:
      case grpc::StatusCode::RESOURCE_EXHAUSTED: return Say(kExitRefused, sentence);
      default:
        return Say(kExitNoPlacer,
                   fmt::format("no placer answers at {}: {}; start tessera-placer, or correct --placer (TESSERA_PLACER)",
                               Printable(url_), sentence));
    }
  }

  const PoolOptions& options_;
  const std::string& url_;
  const std::chrono::system_clock::time_point until_;
  const RpcConnection connection_;
  const std::unique_ptr<PlacementService::Stub> stub_;
};

}  // namespace

int PoolCommand(const PoolOptions& options) {
  const std::string url = FindPlacer(options.placer);
  if (url.empty()) {
    return Say(kExitNoPlacer, "no placer is named whose pool it is: give --placer, set TESSERA_PLACER, or start tessera-placer");
  }
  const auto until = std::chrono::system_clock::now() + kAnswerWait;
  Result<RpcConnection> connection =
      ConnectRpc(url, {options.certificate, options.key, options.authority}, {.what = "placer", .program = "tessera-placer"},
                 "start tessera-placer, or correct --placer (TESSERA_PLACER)", std::chrono::nanoseconds(kAnswerWait).count());
  if (!connection.ok()) return SayConnection(connection.status());
  return PoolCall(options, url, until, std::move(*connection)).Run();
}

}  // namespace tessera
