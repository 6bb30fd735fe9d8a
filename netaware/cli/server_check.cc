#include "netaware/cli/server_check.h"

#include <unistd.h>
#include <cstdio>

#include <algorithm>
#include <utility>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/query_server.h"

namespace tessera {
namespace {

ServerProblem ProblemOf(const ServerUrls& address, const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kUnavailable:
      // If the server is on another host, the agent's sentence already contains the advice.
      if (address.url != address.local_url) break;
      return {kExitUnreachable, status.message() + " ('tesserad --listen " + address.url + "')"};
    case StatusCode::kPermissionDenied: return {kExitPermission, status.message()};
    case StatusCode::kVersionMismatch: return {kExitOtherVersion, status.message()};
    default: break;
  }
  return {kExitUnreachable, status.message()};
}

Result<ServerReport> Ask(const ServerUrls& address, const ServerQuery& query) {
  const uint64_t wait_ns = query.wait_ms * uint64_t{1'000'000};
  return QueryServer(address.local_url.substr(kUnixScheme.size()), query, MonotonicNs() + wait_ns + kQueryTimeoutNs);
}

ServerProblem CheckVersion(const ServerUrls& address, const ServerReport& report) {
  const Status version = CheckPeerVersion("server", report.wire_version, report.spec_hash, kSpecHash);
  if (!version.ok()) return {kExitOtherVersion, address.url + ": " + version.message()};
  return {};
}

ServerProblem Check(const ServerUrls& address, ServerQuery query, ServerReport* report) {
  query.spec_hash = kSpecHash;
  Result<ServerReport> answer = Ask(address, query);
  if (!answer.ok() && answer.status().code() == StatusCode::kFull) return {kExitFull, answer.status().message()};
  if (!answer.ok() && !query.vgpus.empty() && answer.status().code() == StatusCode::kResourceExhausted) {
    return {kExitVgpu, answer.status().message()};
  }
  if (!answer.ok()) return ProblemOf(address, answer.status());
  *report = std::move(answer).value();
  return CheckVersion(address, *report);
}

// The longest wait of one query: links allow an answer no more time.
constexpr uint64_t kAtOnceMs = 60'000;
// The first and the longest pause between two queries for a place.
constexpr useconds_t kFirstPauseUs = 50'000;
constexpr useconds_t kLongestPauseUs = 1'000'000;

}  // namespace

int Refuse(const ServerProblem& problem) {
  if (!problem.sentence.empty()) std::fprintf(stderr, "tessera: %s\n", problem.sentence.c_str());
  return problem.exit_code;
}

ServerProblem WaitForPlace(const ServerUrls& address, uint64_t wait_ms, ServerReport* report, const std::string& vgpus,
                           const std::vector<std::byte>& ticket) {
  const uint64_t until_ns = MonotonicNs() + wait_ms * 1'000'000;
  useconds_t pause_us = kFirstPauseUs;
  for (;;) {
    const uint64_t now_ns = MonotonicNs();
    ServerQuery query;
    query.ask = ServerQuery::Ask::kBegin;
    query.vgpus = vgpus;
    query.ticket = ticket;
    query.wait_ms = now_ns >= until_ns ? 0 : static_cast<uint32_t>(std::min((until_ns - now_ns) / 1'000'000, kAtOnceMs));
    ServerProblem problem = Check(address, std::move(query), report);
    if (problem.exit_code == kExitOk && !report->no_place.empty()) problem = {kExitFull, report->no_place};
    if (problem.exit_code != kExitFull || MonotonicNs() >= until_ns) return problem;
    usleep(pause_us);
    pause_us = std::min(2 * pause_us, kLongestPauseUs);
  }
}

ServerProblem EndSessionAt(const ServerUrls& address, uint64_t session, uint64_t grace_ms) {
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

ServerProblem CheckServer(const ServerUrls& address, ServerQuery::Ask ask, ServerReport* report, uint32_t device,
                          const std::string& vgpus, std::vector<std::byte> ticket) {
  ServerQuery query;
  query.ask = ask;
  query.device = device;
  query.vgpus = vgpus;
  query.ticket = std::move(ticket);
  return Check(address, std::move(query), report);
}

}  // namespace tessera
