// How a connection over UCX begins at its client: addresses, the request, the greeting. The other end is in ucx_listener.cc.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/link/preamble.h"
#include "protocol/link/tcp/tcp_endpoint.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/ucx/ucx_link.h"
#include "protocol/link/ucx/ucx_parts.h"

namespace tessera {
namespace {

// How often somebody who waits for a greeting looks whether it has been given up.
constexpr uint64_t kLookNs = 50'000'000;

// Why `address` cannot be reached; as UCX has it.
Status CannotReach(const LinkAddress& address, ucs_status_t status, const UcxLibrary& ucx) {
  switch (status) {
    case UCS_OK:
      return Status(StatusCode::kUnavailable, "whoever listens at " + address.Url() + " hung up at once: its log may say why");
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
      return Status(StatusCode::kUnavailable,
                    "nobody listens at " + address.Url() + " for UCX: start tessera-gateway there, or correct the address");
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT: return NoAnswer(address);
    default:
      return Status(StatusCode::kUnavailable, address.Url() + " cannot be reached by any device or transport of UCX here (" +
                                                  ucx.ucs_status_string(status) +
                                                  "): look at UCX_TLS, UCX_NET_DEVICES and ucx_info -d, on both hosts");
  }
}

// A link to one endpoint, before anybody has said a word.
Result<std::unique_ptr<Link>> ConnectOne(const LinkAddress& address, const TcpEndpoint& endpoint, UcxReach reach,
                                         uint64_t deadline_ns) {
  Result<std::unique_ptr<UcxLink>> link = UcxLink::Make(reach);
  if (!link.ok()) return link.status();
  const UcxLibrary& ucx = (*link)->worker().ucx();
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = UcxAddressOf(endpoint);
  ucs_status_t started = UCS_OK;
  {
    UcxWorker::Hold hold((*link)->worker());
    started = (*link)->Start(params);
  }
  if (started != UCS_OK) return CannotReach(address, started, ucx);
  (*link)->SayHello();
  Result<UcxMessage> hello = (*link)->AwaitHello(deadline_ns, nullptr);
  if (!hello.ok()) {
    if (hello.status().code() == StatusCode::kTimedOut) return NoAnswer(address);
    return hello.status().code() == StatusCode::kUnavailable ? CannotReach(address, (*link)->lost_status(), ucx) : hello.status();
  }
  RETURN_IF_ERROR(CheckUcxHello("gateway", *hello));
  LogInfo("the link to {} goes over {}", address.Url(), (*link)->DescribeTransport());
  return std::unique_ptr<Link>(std::move(*link));
}

}  // namespace

Status CheckUcxHello(const char* who, const UcxMessage& hello) {
  if (hello.number != kUcxMagic) {
    return Status(StatusCode::kProtocolViolation, std::string("whoever is at the other end is no ") + who + " of tessera");
  }
  Preamble theirs;
  theirs.version = hello.version;
  return CheckLinkVersion(who, theirs);
}

Result<std::vector<TcpEndpoint>> ResolveForUcx(const LinkAddress& address) {
  Result<std::vector<TcpEndpoint>> endpoints = Resolve(address);
  if (!endpoints.ok()) return endpoints;
  std::erase_if(*endpoints, [](const TcpEndpoint& one) { return one.address.ss_family != AF_INET; });
  if (!endpoints->empty()) return endpoints;
  return Status(StatusCode::kUnsupported,
                "the host of " + address.Url() + " has no IPv4 address, which ucx:// needs: give one, or use tcp:// or tls://");
}

UcxReach ReachOf(const std::vector<TcpEndpoint>& endpoints) {
  const bool here = std::all_of(endpoints.begin(), endpoints.end(), [](const auto& one) { return one.IsLoopback(); });
  return here ? UcxReach::kThisHost : UcxReach::kNetwork;
}

Result<UcxMessage> UcxLink::AwaitHello(uint64_t deadline_ns, const std::function<bool()>& given_up) {
  AdaptiveSpin spin;
  for (;;) {
    const uint64_t look_ns = std::min(deadline_ns, MonotonicNs() + kLookNs);
    if (worker_->Wait(
            spin, [this] { return hello_.has_value() || Over(); }, look_ns))
      break;
    if (MonotonicNs() >= deadline_ns || (given_up && given_up())) {
      return Status(StatusCode::kTimedOut, "the peer did not answer in time");
    }
  }
  UcxWorker::Hold hold(*worker_);
  if (hello_.has_value()) return *hello_;
  return lost_.has_value() ? *lost_ : WhyOver();
}

Status PrepareUcx() { return LoadUcx().status(); }
std::vector<std::string> UcxDirectories() { return UcxLibraryDirectories(); }

Result<std::unique_ptr<Link>> ConnectUcx(const LinkAddress& address, bool insecure, uint64_t deadline_ns) {
  RETURN_IF_ERROR(PrepareUcx());
  Result<std::vector<TcpEndpoint>> endpoints = ResolveForUcx(address);
  if (!endpoints.ok()) return endpoints.status();
  RETURN_IF_ERROR(CheckSecure(address, *endpoints, insecure));
  Result<std::unique_ptr<Link>> link = NoAnswer(address);
  for (size_t i = 0; i < endpoints->size() && !link.ok(); ++i) {
    // An address that does not answer leaves a share of the time to those behind it.
    const uint64_t now_ns = MonotonicNs();
    const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    Result<std::unique_ptr<Link>> one =
        ConnectOne(address, (*endpoints)[i], ReachOf(*endpoints), now_ns + left_ns / (endpoints->size() - i));
    // What the first address says counts: the host's name stands for it.
    if (one.ok() || i == 0) link = std::move(one);
  }
  return link;
}

}  // namespace tessera
