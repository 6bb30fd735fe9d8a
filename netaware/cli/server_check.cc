#include "netaware/cli/server_check.h"

#include <string_view>
#include <utility>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/query_server.h"

namespace tessera {
namespace {

ServerProblem ProblemOf(const std::string& url, const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kUnavailable:
      return {kExitUnreachable, status.message() + " ('tesserad --listen " + url + "')"};
    case StatusCode::kPermissionDenied:
      return {kExitPermission, status.message()};
    case StatusCode::kVersionMismatch:
      return {kExitOtherVersion, status.message()};
    default:
      return {kExitUnreachable, status.message()};
  }
}

}  // namespace

ServerProblem CheckServer(const std::string& url, bool readings, ServerReport* report) {
  constexpr std::string_view kScheme = "unix:";
  if (!std::string_view(url).starts_with(kScheme)) {
    return {kExitUnknownScheme, "the server address '" + url + "' has no known scheme: this version takes unix:PATH"};
  }
  ServerQuery query;
  query.spec_hash = kSpecHash;
  query.ask = readings ? ServerQuery::Ask::kState : ServerQuery::Ask::kNothing;
  Result<ServerReport> answer = QueryServer(url.substr(kScheme.size()), query, MonotonicNs() + kQueryTimeoutNs);
  if (!answer.ok()) return ProblemOf(url, answer.status());
  *report = std::move(answer).value();
  const Status version = CheckPeerVersion("server", report->wire_version, report->spec_hash, kSpecHash);
  if (!version.ok()) return {kExitOtherVersion, url + ": " + version.message()};
  return {};
}

}  // namespace tessera
