#include "netaware/admin/placer_call.h"

#include <fmt/core.h>

#include <cstdio>

#include "netaware/admin/pool_text.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/printable.h"

namespace tessera {
int Say(int code, const std::string& sentence) {
  std::fprintf(stderr, "tessera: %s\n", sentence.c_str());
  return code;
}

std::pair<int, std::string> ProblemOf(const Status& connection) {
  switch (connection.code()) {
    case StatusCode::kPermissionDenied: return {kExitPermission, connection.message()};
    case StatusCode::kVersionMismatch: return {kExitOtherVersion, connection.message()};
    case StatusCode::kInvalidArgument: return {kExitUnknownScheme, connection.message()};
    default: return {kExitNoPlacer, connection.message()};
  }
}

int Print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return kExitOk;
  return Say(kExitInternal, "the answer could not be written to stdout");
}

std::pair<int, std::string> PlacerCall::ProblemOf(const grpc::Status& status) const {
  // By TLS, the error about a refused certificate arrives only with the first call.
  if (const Status failure = connection_.failure(); !failure.ok()) return tessera::ProblemOf(failure);
  const std::string sentence = Printable(status.error_message(), kPlacerSentenceBytesMax);
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT: return {kExitUsage, sentence};
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED: return {kExitPermission, sentence};
    case grpc::StatusCode::UNIMPLEMENTED: return {kExitOtherVersion, "the placer is of another release: " + sentence};
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return {kExitRefused, sentence};
    default:
      return {kExitNoPlacer,
              fmt::format("no placer answers at {}: {}; start tessera-placer, or correct --placer (TESSERA_PLACER)",
                          Printable(url_), sentence)};
  }
}

int PlacerCall::SayRefusal(const grpc::Status& status) const {
  const auto [code, sentence] = ProblemOf(status);
  return Say(code, sentence);
}

int AtPlacer(const PoolOptions& options, const std::function<int(const PlacerCall& call)>& command) {
  const std::string url = FindPlacer(options.placer);
  if (url.empty()) {
    return Say(kExitNoPlacer,
               "no placer is named whose pool it is: give --placer, set TESSERA_PLACER, write it into config.toml, or start "
               "tessera-placer");
  }
  const auto until = std::chrono::system_clock::now() + kPlacerAnswerWait;
  Result<RpcConnection> connection = ConnectRpc(
      url, {options.certificate, options.key, options.authority}, {.what = "placer", .program = "tessera-placer"},
      "start tessera-placer, or correct --placer (TESSERA_PLACER)", std::chrono::nanoseconds(kPlacerAnswerWait).count());
  if (!connection.ok()) {
    const auto [code, sentence] = ProblemOf(connection.status());
    return Say(code, sentence + HowPlacerIsTaken(options.placer));
  }
  return command(PlacerCall(url, until, std::move(*connection)));
}

}  // namespace tessera
