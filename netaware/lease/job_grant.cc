#include "netaware/lease/job_grant.h"

#include <fmt/core.h>
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "netaware/job/place_request.h"
#include "netaware/lease/reachable_address.h"
#include "protocol/base/background.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"
#include "protocol/rpc/request_id.h"

namespace tessera {
namespace {

using control::v1::GrantPart;
using control::v1::GrantState;

constexpr RpcPeer kPlacer = {.what = "placer", .program = "tessera-placer"};

control::v1::PlaceRequest NewRequest(const JobOptions& job) {
  auto request = RequestOf<control::v1::PlaceRequest>(job);
  request.set_request_id(NewRequestId());
  return request;
}

std::string Describe(const GrantState& state) {
  std::string text;
  for (const GrantPart& part : state.parts()) {
    for (const control::v1::GrantGpu& gpu : part.gpus()) {
      text += fmt::format("{}{} of {}: {:g} of its time, {}", text.empty() ? "" : "; ", Printable(gpu.model()),
                          Printable(part.server()), gpu.share(), BytesText(gpu.memory_bytes()));
    }
  }
  return text;
}

int Say(int code, const std::string& sentence) {
  std::fprintf(stderr, "tessera: %s\n", sentence.c_str());
  return code;
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kPermissionDenied: return kExitPermission;
    case StatusCode::kVersionMismatch: return kExitOtherVersion;
    case StatusCode::kInvalidArgument: return kExitUnknownScheme;
    default: return kExitNoPlacer;
  }
}

}  // namespace

JobGrant::JobGrant(const LeaseOptions& options)
    : options_(options), request_(NewRequest(options.job)), files_(options.directory()) {}

JobGrant::~JobGrant() = default;

Status JobGrant::Connect() {
  Result<RpcConnection> connection =
      ConnectRpc(options_.job.placer, options_.link.keys, kPlacer, "start tessera-placer, or correct --placer (TESSERA_PLACER)");
  if (!connection.ok()) return connection.status();
  watch_.reset();
  connection_.emplace(std::move(*connection));
  stub_ = control::v1::PlacementService::NewStub(connection_->channel);
  return Status::Ok();
}

int JobGrant::Run(const std::function<void(const GrantedJob&)>& granted) {
  granted_ = granted;
  if (const Status status = Connect(); !status.ok()) return Say(ExitCodeOf(status), status.message());
  watch_ = std::make_unique<GrantWatch>(*stub_, request_);
  using Clock = std::chrono::steady_clock;
  Clock::time_point renew_at = Clock::now() + std::chrono::milliseconds(kRenewMs);
  for (;;) {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(renew_at - Clock::now()).count() + 1;
    pollfd ready[] = {{options_.owner_fd, POLLIN, 0}, {watch_ == nullptr ? -1 : watch_->fd(), POLLIN, 0}};
    poll(ready, std::size(ready), rest < 0 ? 0 : static_cast<int>(rest));
    if (ready[0].revents != 0) break;
    std::optional<int> code;
    if (watch_ != nullptr) {
      for (const GrantState& state : watch_->Take()) {
        if (!code) code = Take(state);
      }
      if (!code && watch_->ended()) code = TakeEnd();
    }
    if (code) return *code;
    if (watch_ == nullptr) renew_at = std::min(renew_at, Clock::now() + std::chrono::milliseconds(kAgainMs));
    if (Clock::now() < renew_at) continue;
    Renew();
    if (!has_heard_ && watch_ == nullptr && ++tries_ == kFirstTries) return Say(kExitNoPlacer, lost_);
    renew_at = Clock::now() + std::chrono::milliseconds(watch_ == nullptr ? kAgainMs : kRenewMs);
  }
  // Whoever waits for the end of what the job has written does not wait for this.
  LeaveStderr();
  Release();
  return kExitOk;
}

std::optional<int> JobGrant::Take(const GrantState& state) {
  has_heard_ = true;
  const std::string reason = Printable(state.reason());
  if (state.state() == "waiting") {
    if (grant_.empty()) SayOnce("waiting for a GPU of the pool: " + reason);
    return std::nullopt;
  }
  if (state.state() == "granted") {
    const Status written = WriteTickets(state);
    if (written.ok()) return std::nullopt;
    if (grant_.empty()) return Say(kExitServerFailed, written.message());
    SayOnce(written.message());
    return std::nullopt;
  }
  if (grant_.empty()) {
    const bool late = state.state() == "late";
    return Say(late ? kExitLate : kExitRefused,
               (late ? "the job was not given a GPU in time: " : "the pool has no GPU for this job: ") + reason);
  }
  has_ended_ = true;
  SayOnce("the job has lost its GPUs: its grant was " + Printable(state.state()) + (reason.empty() ? "" : ", " + reason));
  return std::nullopt;
}

std::optional<int> JobGrant::TakeEnd() {
  const grpc::Status why = watch_->why();
  const Status failure = connection_->failure();
  watch_.reset();
  if (has_ended_) return std::nullopt;
  const std::string sentence = failure.ok() ? Printable(why.error_message()) : failure.message();
  const auto refused = [&](int code) { return grant_.empty() ? std::optional(Say(code, sentence)) : std::nullopt; };
  if (failure.code() == StatusCode::kPermissionDenied) return refused(kExitPermission);
  switch (why.error_code()) {
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED: return refused(kExitPermission);
    case grpc::StatusCode::INVALID_ARGUMENT: return refused(kExitUsage);
    case grpc::StatusCode::UNIMPLEMENTED: return refused(kExitOtherVersion);
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return refused(kExitRefused);
    default: break;
  }
  if (!has_heard_) {
    // It may have granted already, and be back in a moment: then the same request gets that.
    lost_ = fmt::format("no placer answers at {}: {}; start tessera-placer, or correct --placer (TESSERA_PLACER)",
                        Printable(options_.job.placer), sentence);
    return ++tries_ < kFirstTries ? std::nullopt : std::optional(Say(kExitNoPlacer, lost_));
  }
  if (grant_.empty()) SayOnce("the placer does not answer any more: " + sentence + "; it is asked again");
  return std::nullopt;
}

Status JobGrant::WriteTickets(const GrantState& state) {
  std::vector<std::string> tickets;
  GrantedJob job;
  for (const GrantPart& part : state.parts()) {
    if (!part.ticket().empty()) tickets.push_back(part.ticket());
    if (!grant_.empty()) continue;
    Result<std::string> address = ReachableAddress(part, state.holder());
    if (!address.ok()) return address.status();
    job.servers += (job.servers.empty() ? "" : ",") + *address;
  }
  if (tickets.size() != static_cast<size_t>(state.parts_size()) || tickets.empty())
    return Status(StatusCode::kProtocolViolation,
                  "the placer has sent a grant without its tickets: install the same release on all hosts");
  RETURN_IF_ERROR(files_.Write(tickets));
  if (!grant_.empty()) return Status::Ok();
  grant_ = state.grant();
  job.tickets = files_.paths();
  job.text = Describe(state);
  granted_(job);
  return Status::Ok();
}

void JobGrant::Renew() {
  if (has_ended_) return;
  if (watch_ == nullptr && !Connect().ok()) return;
  if (!grant_.empty()) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kAnswerMs));
    control::v1::RenewRequest request;
    request.set_grant(grant_);
    GrantState state;
    const grpc::Status status = stub_->Renew(&context, request, &state);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      has_ended_ = true;
      return SayOnce("the job has lost its GPUs: the placer does not know its grant any more");
    }
    if (!status.ok()) return;
    (void)Take(state);
  }
  // The same request is the same grant.
  if (watch_ == nullptr && !has_ended_) watch_ = std::make_unique<GrantWatch>(*stub_, request_);
}

void JobGrant::Release() {
  const bool is_connected = watch_ != nullptr;
  watch_.reset();  // before the release: the request must not be heard behind it, and be granted anew
  if (grant_.empty() || has_ended_) return;
  // A placer that is away may be back in a moment; later it ends what nobody renews.
  for (int tries = 0; tries < kReleaseTries; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(kAgainMs));
    if ((tries > 0 || !is_connected) && !Connect().ok()) continue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kAnswerMs));
    control::v1::ReleaseRequest request;
    request.set_grant(grant_);
    GrantState state;
    const grpc::StatusCode code = stub_->Release(&context, request, &state).error_code();
    // A placer that could not store it says so, as a rule for a moment.
    const bool again = code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
                       code == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (!again) return;
  }
}

void JobGrant::SayOnce(const std::string& sentence) {
  if (sentence == said_) return;
  said_ = sentence;
  Say(0, sentence);
}

}  // namespace tessera
