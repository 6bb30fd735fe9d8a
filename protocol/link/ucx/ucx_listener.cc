// Where links over UCX arrive: requests to connect, each of which a descriptor stands for until a thread makes a link of it.
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/link/ucx/ucx_link.h"
#include "protocol/link/ucx/ucx_parts.h"

namespace tessera {
namespace {

// Connections that are held for Accept(); further ones are rejected.
constexpr size_t kBacklog = 64;

std::string Describe(const sockaddr_storage& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof(address), host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "somebody";
  }
  return std::string(host) + ":" + port;
}

// A request to connect. The descriptor that Accept() gives is one end of a pair of sockets: the other is here, so that a
// connection that is dropped is noticed, and one that is shut down can be given up.
struct Request {
  ucp_conn_request_h handle = nullptr;
  std::string peer;
  UniqueFd other_end;
};

class UcxListener : public LinkListener {
 public:
  UcxListener(const LinkAddress& address, UcxReach reach, UniqueFd ready, std::unique_ptr<UcxWorker> worker)
      : address_(address), reach_(reach), ready_(std::move(ready)), worker_(std::move(worker)) {}
  ~UcxListener() override;
  // Once, before anything else.
  Status Listen(const TcpEndpoint& endpoint);

  int fd() const override { return ready_.get(); }
  const LinkAddress& address() const override { return address_; }
  Result<UniqueFd> Accept() override;
  std::string DescribePeer(int connection) const override;
  Result<AcceptedLink> Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) override;

 private:
  static void OnRequest(ucp_conn_request_h handle, void* self);
  void Reject(ucp_conn_request_h handle) { worker_->ucx().ucp_listener_reject(listener_, handle); }
  void RejectDropped();
  // A link that begins with what `connection` stands for, which is handed out as `request`.
  Result<std::unique_ptr<UcxLink>> Begin(int connection, Request* request);

  LinkAddress address_;
  const UcxReach reach_;
  const UniqueFd ready_;  // an eventfd: somebody waits
  const std::unique_ptr<UcxWorker> worker_;
  // With the worker's lock held.
  ucp_listener_h listener_ = nullptr;
  std::deque<Request> waiting_;
  std::map<int, Request> accepted_;  // by the descriptor that stands for it
};

UcxListener::~UcxListener() {
  UcxWorker::Hold hold(*worker_);
  if (listener_ == nullptr) return;
  for (const Request& request : waiting_) Reject(request.handle);
  for (const auto& [fd, request] : accepted_) Reject(request.handle);
  worker_->ucx().ucp_listener_destroy(listener_);
  worker_->Unfinished(-1);
}

Status UcxListener::Listen(const TcpEndpoint& endpoint) {
  const UcxLibrary& ucx = worker_->ucx();
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = UcxAddressOf(endpoint);
  params.conn_handler.cb = OnRequest;
  params.conn_handler.arg = this;
  UcxWorker::Hold hold(*worker_);
  const ucs_status_t status = ucx.ucp_listener_create(worker_->get(), &params, &listener_);
  if (status == UCS_ERR_BUSY) {
    return Status(StatusCode::kUnavailable, "somebody listens on " + address_.Url() + " already: stop it or choose another port");
  }
  if (status != UCS_OK) {
    return Status(StatusCode::kInvalidArgument, "UCX cannot listen on " + address_.Url() + " (" + ucx.ucs_status_string(status) +
                                                    "): is it an address of this host, and of a device that ucx_info -d shows?");
  }
  // For as long as there is a listener: its worker makes progress by itself.
  worker_->Unfinished(1);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (ucx.ucp_listener_query(listener_, &attributes) == UCS_OK) {
    TcpEndpoint bound;
    bound.address = attributes.sockaddr;
    address_.port = bound.port();
  }
  return Status::Ok();
}

void UcxListener::OnRequest(ucp_conn_request_h handle, void* self) {
  UcxListener& listener = *static_cast<UcxListener*>(self);
  if (listener.waiting_.size() >= kBacklog) return listener.Reject(handle);
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  const bool known = listener.worker_->ucx().ucp_conn_request_query(handle, &attributes) == UCS_OK;
  listener.waiting_.push_back({handle, known ? Describe(attributes.client_address) : "somebody", {}});
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(listener.ready_.get(), &one, sizeof(one));
}

Result<UniqueFd> UcxListener::Accept() {
  UcxWorker::Hold hold(*worker_);
  uint64_t count = 0;
  if (waiting_.size() <= 1) [[maybe_unused]]
    const ssize_t got = read(ready_.get(), &count, sizeof(count));
  RejectDropped();
  if (waiting_.empty()) return Status(StatusCode::kTimedOut, "no connection waits");
  Request request = std::move(waiting_.front());
  waiting_.pop_front();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    const Status status(StatusCode::kResourceExhausted, std::string("cannot accept a connection: ") + std::strerror(errno));
    Reject(request.handle);
    return status;
  }
  request.other_end.reset(ends[1]);
  accepted_.insert_or_assign(ends[0], std::move(request));
  return UniqueFd(ends[0]);
}

void UcxListener::RejectDropped() {
  for (auto at = accepted_.begin(); at != accepted_.end();) {
    pollfd dropped = {at->second.other_end.get(), POLLIN, 0};
    if (poll(&dropped, 1, 0) == 1 && (dropped.revents & POLLHUP) != 0) {
      Reject(at->second.handle);
      at = accepted_.erase(at);
    } else {
      ++at;
    }
  }
}

std::string UcxListener::DescribePeer(int connection) const {
  UcxWorker::Hold hold(*worker_);
  const auto found = accepted_.find(connection);
  return found != accepted_.end() ? found->second.peer : "somebody";
}

Result<std::unique_ptr<UcxLink>> UcxListener::Begin(int connection, Request* request) {
  Result<std::unique_ptr<UcxLink>> link = UcxLink::Make(reach_);
  // UCX hands a request from one worker to another: neither may be at work meanwhile.
  UcxWorker::Hold hold(*worker_);
  const auto found = accepted_.find(connection);
  if (found == accepted_.end()) return Status(StatusCode::kInternal, "no connection that this listener accepted");
  *request = std::move(found->second);
  accepted_.erase(found);
  if (!link.ok()) {
    Reject(request->handle);
    return link;
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request->handle;
  UcxWorker::Hold hold_link((*link)->worker());
  const ucs_status_t started = (*link)->Start(params);
  if (started == UCS_OK) return link;
  return Status(StatusCode::kUnavailable,
                std::string("the connection to the other host failed: ") + worker_->ucx().ucs_status_string(started));
}

Result<AcceptedLink> UcxListener::Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) {
  Request request;  // kept: with its end of the pair the connection would hang up
  Result<std::unique_ptr<UcxLink>> link = Begin(connection.get(), &request);
  if (!link.ok()) return link.status();
  const auto given_up = [&connection] {
    pollfd ended = {connection.get(), POLLIN, 0};
    return poll(&ended, 1, 0) == 1 && (ended.revents & POLLHUP) != 0;
  };
  Result<UcxMessage> hello = (*link)->AwaitHello(deadline_ns, given_up);
  if (!hello.ok()) return hello.status();
  (*link)->SayHello();
  RETURN_IF_ERROR(CheckUcxHello("client", *hello));
  progress.Proved();
  LogInfo("the link of {} goes over {}", request.peer, (*link)->DescribeTransport());
  return AcceptedLink{std::move(*link), request.peer};
}

}  // namespace

Result<std::unique_ptr<LinkListener>> ListenUcx(const LinkAddress& address, bool insecure) {
  RETURN_IF_ERROR(PrepareUcx());
  Result<std::vector<TcpEndpoint>> endpoints = ResolveForUcx(address);
  if (!endpoints.ok()) return endpoints.status();
  RETURN_IF_ERROR(CheckSecure(address, *endpoints, insecure));
  UniqueFd ready(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready.valid()) return Status::FromErrno("cannot make an event descriptor for a listener", errno);
  // Listens at the first address alone, but what its connections may go over is decided by all.
  const UcxReach reach = ReachOf(*endpoints);
  Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::Make(reach);
  if (!worker.ok()) return worker.status();
  auto listener = std::make_unique<UcxListener>(address, reach, std::move(ready), std::move(*worker));
  RETURN_IF_ERROR(listener->Listen(endpoints->front()));
  return std::unique_ptr<LinkListener>(std::move(listener));
}

}  // namespace tessera
