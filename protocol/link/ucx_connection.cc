// How a connection over UCX begins: addresses, the request to connect, the greeting.
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/link/tcp_link.h"
#include "protocol/link/ucx_link.h"
#include "protocol/link/ucx_parts.h"

namespace tessera {
namespace {

// How often somebody who waits for a greeting looks whether it has been given up.
constexpr uint64_t kLookNs = 50'000'000;

std::string UrlOf(const TcpAddress& address) { return "ucx" + address.Url().substr(3); }

Status NoAnswer(const TcpAddress& address) {
  return Status(StatusCode::kTimedOut, "there is no answer from " + UrlOf(address) +
                                           ": is its host up, and does its firewall let the port through?");
}

// Why `address` cannot be reached; as UCX has it.
Status CannotReach(const TcpAddress& address, ucs_status_t status, const UcxLibrary& ucx) {
  switch (status) {
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
      return Status(StatusCode::kUnavailable, "nobody listens at " + UrlOf(address) +
                                                  " for UCX: start tessera-gateway there, or correct the address");
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return NoAnswer(address);
    default:
      return Status(StatusCode::kUnavailable,
                    UrlOf(address) + " cannot be reached by any device or transport of UCX here (" +
                        ucx.ucs_status_string(status) + "): look at UCX_TLS, UCX_NET_DEVICES and ucx_info -d, on both hosts");
  }
}

ucs_sock_addr_t UcxAddressOf(const TcpEndpoint& endpoint) { return {endpoint.get(), endpoint.length}; }

// A link to one endpoint, before anybody has said a word.
Result<std::unique_ptr<Link>> ConnectOne(const TcpAddress& address, const TcpEndpoint& endpoint, uint64_t deadline_ns) {
  Result<std::unique_ptr<UcxLink>> link = UcxLink::Make();
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
    return hello.status().code() == StatusCode::kUnavailable ? CannotReach(address, (*link)->lost_status(), ucx)
                                                             : hello.status();
  }
  RETURN_IF_ERROR(CheckUcxHello("gateway", *hello));
  LogInfo("the link to {} goes over {}", UrlOf(address), (*link)->DescribeTransport());
  return std::unique_ptr<Link>(std::move(*link));
}

std::string DescribeAddress(const sockaddr_storage& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof(address), host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "somebody";
  }
  return std::string(host) + ":" + port;
}

}  // namespace

Status CheckUcxHello(const char* who, const UcxMessage& hello) {
  if (hello.number != kUcxMagic) {
    return Status(StatusCode::kProtocolViolation, std::string("whoever is at the other end is no tessera-") + who +
                                                      ": correct the address");
  }
  if (hello.version == kLinkVersion) return Status::Ok();
  return Status(StatusCode::kVersionMismatch, std::string("the ") + who + " speaks link version " +
                                                  std::to_string(hello.version) + ", this side " +
                                                  std::to_string(kLinkVersion) +
                                                  ": install the same release of tessera on both sides");
}

Result<UcxMessage> UcxLink::AwaitHello(uint64_t deadline_ns, const std::function<bool()>& given_up) {
  AdaptiveSpin spin;
  for (;;) {
    const uint64_t look_ns = std::min(deadline_ns, MonotonicNs() + kLookNs);
    if (worker_->Wait(spin, [this] { return hello_.has_value() || Over(); }, look_ns)) break;
    if (MonotonicNs() >= deadline_ns || (given_up && given_up())) {
      return Status(StatusCode::kTimedOut, "the peer did not answer in time");
    }
  }
  UcxWorker::Hold hold(*worker_);
  if (hello_.has_value()) return *hello_;
  return lost_.has_value() ? *lost_ : WhyOver();
}

Status PrepareUcx() { return LoadUcx().status(); }

Result<std::unique_ptr<Link>> ConnectUcx(const TcpAddress& address, bool insecure, uint64_t deadline_ns) {
  RETURN_IF_ERROR(PrepareUcx());
  Result<std::vector<TcpEndpoint>> endpoints = Resolve(address);
  if (!endpoints.ok()) return endpoints.status();
  RETURN_IF_ERROR(CheckSecure(address, *endpoints, insecure));
  Result<std::unique_ptr<Link>> link = NoAnswer(address);
  for (size_t i = 0; i < endpoints->size() && !link.ok(); ++i) {
    // An address that does not answer leaves a share of the time to those behind it.
    const uint64_t now_ns = MonotonicNs();
    const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    Result<std::unique_ptr<Link>> one = ConnectOne(address, (*endpoints)[i], now_ns + left_ns / (endpoints->size() - i));
    // What the first address says counts: the host's name stands for it.
    if (one.ok() || i == 0) link = std::move(one);
  }
  return link;
}

// --- UcxListener ---

struct UcxListener::State {
  struct Request {
    ucp_conn_request_h handle = nullptr;
    std::string peer;
    UniqueFd other_end;  // of the pair of sockets whose first end stands for the connection
  };
  ~State() {
    if (worker == nullptr) return;
    {
      UcxWorker::Hold hold(*worker);
      for (Request& request : waiting) Reject(request.handle);
      for (auto& [fd, request] : accepted) Reject(request.handle);
      if (listener != nullptr) {
        worker->ucx().ucp_listener_destroy(listener);
        worker->Unfinished(-1);
      }
    }
    worker.reset();
  }
  void Reject(ucp_conn_request_h handle) { worker->ucx().ucp_listener_reject(listener, handle); }

  static void OnRequest(ucp_conn_request_h handle, void* self) {
    State& state = *static_cast<State*>(self);
    if (state.waiting.size() >= kBacklog) return state.Reject(handle);
    ucp_conn_request_attr_t attributes{};
    attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
    const bool known = state.worker->ucx().ucp_conn_request_query(handle, &attributes) == UCS_OK;
    state.waiting.push_back({handle, known ? DescribeAddress(attributes.client_address) : "somebody", {}});
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(state.ready.get(), &one, sizeof(one));
  }

  TcpAddress address;
  UniqueFd ready;  // an eventfd: somebody waits
  std::unique_ptr<UcxWorker> worker;
  // With the worker's lock held.
  ucp_listener_h listener = nullptr;
  std::deque<Request> waiting;
  std::map<int, Request> accepted;  // by the descriptor that stands for it
};

UcxListener::UcxListener(std::unique_ptr<State> state) : state_(std::move(state)) {}
UcxListener::~UcxListener() = default;
int UcxListener::fd() const { return state_->ready.get(); }
const TcpAddress& UcxListener::address() const { return state_->address; }

Result<std::unique_ptr<UcxListener>> UcxListener::Bind(const TcpAddress& address, bool insecure) {
  RETURN_IF_ERROR(PrepareUcx());
  Result<std::vector<TcpEndpoint>> endpoints = Resolve(address);
  if (!endpoints.ok()) return endpoints.status();
  RETURN_IF_ERROR(CheckSecure(address, *endpoints, insecure));
  auto state = std::make_unique<State>();
  state->address = address;
  state->ready.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->ready.valid()) return Status::FromErrno("cannot make an event descriptor for a listener", errno);
  Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::Make();
  if (!worker.ok()) return worker.status();
  state->worker = std::move(*worker);
  const UcxLibrary& ucx = state->worker->ucx();
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = UcxAddressOf(endpoints->front());
  params.conn_handler.cb = State::OnRequest;
  params.conn_handler.arg = state.get();
  UcxWorker::Hold hold(*state->worker);
  const ucs_status_t status = ucx.ucp_listener_create(state->worker->get(), &params, &state->listener);
  if (status == UCS_ERR_BUSY) {
    return Status(StatusCode::kUnavailable, "somebody listens on " + UrlOf(address) + " already: stop it or choose another port");
  }
  if (status != UCS_OK) {
    return Status(StatusCode::kInvalidArgument, "UCX cannot listen on " + UrlOf(address) + " (" + ucx.ucs_status_string(status) +
                                                    "): is it an address of this host, and of one of its devices in ucx_info -d?");
  }
  // For as long as there is a listener: its worker makes progress by itself.
  state->worker->Unfinished(1);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (ucx.ucp_listener_query(state->listener, &attributes) == UCS_OK) {
    TcpEndpoint bound;
    bound.address = attributes.sockaddr;
    state->address.port = bound.port();
  }
  return std::unique_ptr<UcxListener>(new UcxListener(std::move(state)));
}

Result<UniqueFd> UcxListener::Accept() {
  State& state = *state_;
  UcxWorker::Hold hold(*state.worker);
  uint64_t count = 0;
  if (state.waiting.size() <= 1) [[maybe_unused]] const ssize_t got = read(state.ready.get(), &count, sizeof(count));
  // Connections that were dropped without Finish().
  for (auto at = state.accepted.begin(); at != state.accepted.end();) {
    pollfd dropped = {at->second.other_end.get(), POLLIN, 0};
    if (poll(&dropped, 1, 0) == 1 && (dropped.revents & POLLHUP) != 0) {
      state.Reject(at->second.handle);
      at = state.accepted.erase(at);
    } else {
      ++at;
    }
  }
  if (state.waiting.empty()) return Status(StatusCode::kTimedOut, "no connection waits");
  State::Request request = std::move(state.waiting.front());
  state.waiting.pop_front();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    state.Reject(request.handle);
    return Status(StatusCode::kResourceExhausted, std::string("cannot accept a connection: ") + std::strerror(errno));
  }
  request.other_end.reset(ends[1]);
  state.accepted.insert_or_assign(ends[0], std::move(request));
  return UniqueFd(ends[0]);
}

std::string UcxListener::DescribePeer(int connection) const {
  UcxWorker::Hold hold(*state_->worker);
  const auto found = state_->accepted.find(connection);
  return found != state_->accepted.end() ? found->second.peer : "somebody";
}

Result<std::unique_ptr<Link>> UcxListener::Finish(UniqueFd connection, uint64_t deadline_ns) {
  Result<std::unique_ptr<UcxLink>> link = UcxLink::Make();
  State::Request request;
  ucs_status_t started = UCS_OK;
  {
    // UCX hands a request from one worker to another: neither may be at work meanwhile.
    UcxWorker::Hold hold(*state_->worker);
    const auto found = state_->accepted.find(connection.get());
    if (found == state_->accepted.end()) return Status(StatusCode::kUnavailable, "the peer closed the connection");
    request = std::move(found->second);
    state_->accepted.erase(found);
    if (!link.ok()) {
      state_->Reject(request.handle);
      return link.status();
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request.handle;
    UcxWorker::Hold hold_link((*link)->worker());
    started = (*link)->Start(params);
  }
  if (started != UCS_OK) {
    return Status(StatusCode::kUnavailable, std::string("the connection to the other host failed: ") +
                                                (*link)->worker().ucx().ucs_status_string(started));
  }
  const auto given_up = [&connection] {
    pollfd ended = {connection.get(), POLLIN, 0};
    return poll(&ended, 1, 0) == 1;
  };
  Result<UcxMessage> hello = (*link)->AwaitHello(deadline_ns, given_up);
  if (!hello.ok()) return hello.status();
  (*link)->SayHello();
  RETURN_IF_ERROR(CheckUcxHello("agent", *hello));
  LogInfo("the link of {} goes over {}", request.peer, (*link)->DescribeTransport());
  return std::unique_ptr<Link>(std::move(*link));
}

}  // namespace tessera
