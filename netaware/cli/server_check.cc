#include "netaware/cli/server_check.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/query_server.h"

namespace tessera {
namespace {

ServerProblem ProblemOf(const ServerAddress& address, const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kUnavailable:
      // What to start is told by whoever looked for it on another host.
      if (address.url != address.local_url) break;
      return {kExitUnreachable, status.message() + " ('tesserad --listen " + address.url + "')"};
    case StatusCode::kPermissionDenied: return {kExitPermission, status.message()};
    case StatusCode::kVersionMismatch: return {kExitOtherVersion, status.message()};
    default: break;
  }
  return {kExitUnreachable, status.message()};
}

Result<ServerReport> Ask(const ServerAddress& address, const ServerQuery& query) {
  return QueryServer(address.local_url.substr(kUnixScheme.size()), query, MonotonicNs() + kQueryTimeoutNs);
}

ServerProblem CheckVersion(const ServerAddress& address, const ServerReport& report) {
  const Status version = CheckPeerVersion("server", report.wire_version, report.spec_hash, kSpecHash);
  if (!version.ok()) return {kExitOtherVersion, address.url + ": " + version.message()};
  return {};
}

// The first and the longest pause between two questions whether there is a place by now.
constexpr useconds_t kFirstPauseUs = 50'000;
constexpr useconds_t kLongestPauseUs = 1'000'000;

}  // namespace

ServerProblem WaitForPlace(const ServerAddress& address, ServerReport* report, const std::string& vgpus,
                           const std::vector<std::byte>& ticket) {
  const uint64_t began_ns = MonotonicNs();
  useconds_t pause_us = kFirstPauseUs;
  for (;;) {
    const ServerProblem problem = CheckServer(address, ServerQuery::Ask::kBegin, report, 0, vgpus, ticket);
    if (problem.exit_code != kExitOk || report->no_place.empty()) return problem;
    if (MonotonicNs() - began_ns >= report->start_wait_s * uint64_t{1'000'000'000}) return {kExitFull, report->no_place};
    usleep(pause_us);
    pause_us = std::min(2 * pause_us, kLongestPauseUs);
  }
}

ServerProblem EndSessionAt(const ServerAddress& address, uint64_t session, uint64_t grace_ms) {
  ServerQuery query;
  query.spec_hash = kSpecHash;
  query.ask = ServerQuery::Ask::kEnd;
  query.session = session;
  query.grace_ms = grace_ms;
  const Result<ServerReport> answer = Ask(address, query);
  if (!answer.ok() && answer.status().code() == StatusCode::kInvalidArgument) return {kExitRefused, answer.status().message()};
  if (!answer.ok()) return ProblemOf(address, answer.status());
  return CheckVersion(address, answer.value());
}

ServerProblem CheckServer(const ServerAddress& address, ServerQuery::Ask ask, ServerReport* report, uint32_t device,
                          const std::string& vgpus, std::vector<std::byte> ticket) {
  ServerQuery query;
  query.spec_hash = kSpecHash;
  query.ask = ask;
  query.device = device;
  query.vgpus = vgpus;
  query.ticket = std::move(ticket);
  Result<ServerReport> answer = Ask(address, query);
  if (!answer.ok() && answer.status().code() == StatusCode::kFull) return {kExitFull, answer.status().message()};
  if (!answer.ok() && !vgpus.empty() && answer.status().code() == StatusCode::kResourceExhausted) {
    return {kExitVgpu, answer.status().message()};
  }
  if (!answer.ok()) return ProblemOf(address, answer.status());
  *report = std::move(answer).value();
  return CheckVersion(address, *report);
}

}  // namespace tessera
