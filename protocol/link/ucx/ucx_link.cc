// Life and end of a link over UCX. How a connection comes about is in ucx_connection.cc and ucx_listener.cc, how frames are sent
// and received in ucx_frames.cc.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/ucx/ucx_link.h"
#include "protocol/link/ucx/ucx_parts.h"

namespace tessera {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
// How long an end that was closed waits for the other to take what was sent.
constexpr uint64_t kLingerNs = kSecondNs;
// What UCX may take to end what is unfinished, once the endpoint was given up.
constexpr uint64_t kGiveUpNs = 5 * kSecondNs;

}  // namespace

Result<std::unique_ptr<UcxLink>> UcxLink::Make(UcxReach reach) {
  Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::Make(reach);
  if (!worker.ok()) return worker.status();
  void* memory = mmap(nullptr, kUcxWindowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status::FromErrno("cannot map the buffer of a link", errno);
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), kUcxWindowBytes);
  auto buffer = UcxRegistration::Make(**worker, bytes, true);
  if (buffer == nullptr) {
    munmap(memory, kUcxWindowBytes);
    return Status(StatusCode::kResourceExhausted,
                  "the buffer of a link cannot be registered for RDMA: raise the limit of locked memory (ulimit -l)");
  }
  auto link = std::unique_ptr<UcxLink>(new UcxLink(std::move(*worker), std::move(buffer), bytes));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = OnMessage;
  handler.arg = link.get();
  link->worker().SetTick([&link = *link] { link.Tick(); });
  UcxWorker::Hold hold(link->worker());
  if (link->worker().ucx().ucp_worker_set_am_recv_handler(link->worker().get(), &handler) == UCS_OK) return link;
  return Status(StatusCode::kInternal, "UCX takes no handler for messages");
}

UcxLink::UcxLink(std::unique_ptr<UcxWorker> worker, std::shared_ptr<const UcxRegistration> buffer,
                 std::span<std::byte> buffer_memory)
    : buffer_registration_(std::move(buffer)), worker_(std::move(worker)), buffer_(buffer_memory) {}

UcxLink::~UcxLink() {
  Close();
  // What was sent has left this process and is in the other's, or is given up.
  AdaptiveSpin spin;
  const auto delivered = [this] { return lost_.has_value() || !hello_.has_value() || (outgoing_ == 0 && end_seen_); };
  worker_->Wait(spin, delivered, closed_ns_ + kLingerNs);
  {
    UcxWorker::Hold hold(*worker_);
    while (const std::optional<UcxInbox::Frame> frame = inbox_.Discard()) {
      if (frame->data != nullptr) worker_->ucx().ucp_am_data_release(worker_->get(), frame->data);
    }
    Abandon();
  }
  if (!worker_->Wait(
          spin, [this] { return outgoing_ == 0 && !endpoint_closing_; }, MonotonicNs() + kGiveUpNs)) {
    LogWarning("UCX has not ended {} messages of a link", outgoing_);
  }
  worker_.reset();
}

ucs_status_t UcxLink::Start(ucp_ep_params_t params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = OnLost;
  params.err_handler.arg = this;
  return worker_->ucx().ucp_ep_create(worker_->get(), &params, &endpoint_);
}

void UcxLink::SayHello() {
  UcxWorker::Hold hold(*worker_);
  PostMessage(UcxMessageKind::kHello, kUcxMagic);
}

ucs_status_t UcxLink::lost_status() {
  UcxWorker::Hold hold(*worker_);
  return lost_status_;
}

std::string UcxLink::DescribeTransport() {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  if (stream == nullptr) return "unknown";
  {
    UcxWorker::Hold hold(*worker_);
    if (endpoint_ != nullptr) worker_->ucx().ucp_ep_print_info(endpoint_, stream);
  }
  fclose(stream);
  // Lines like "#  lane[1]:  3:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255] am am_bw#0 wireup": of those that carry active messages
  // the word behind the resource's number, up to the number of the path.
  std::string found;
  const std::string_view all(text, length);
  for (size_t at = all.find("lane["); at != std::string_view::npos; at = all.find("lane[", at + 1)) {
    std::string_view line = all.substr(at, all.find('\n', at) - at);
    if (line.find(" am") == std::string_view::npos) continue;
    line.remove_prefix(std::min(line.size(), line.find("]:") + 2));
    line.remove_prefix(std::min(line.size(), line.find(':') + 1));
    line = line.substr(0, line.find(' '));
    found += (found.empty() ? "" : ", ") + std::string(line.substr(0, line.rfind('.')));
  }
  free(text);
  return found.empty() ? "unknown" : found;
}

// --- The end ---

void UcxLink::Close() {
  UcxWorker::Hold hold(*worker_);
  if (closed_) return;
  closed_ = true;
  closed_ns_ = MonotonicNs();
  if (!lost_.has_value() && endpoint_ != nullptr) PostMessage(UcxMessageKind::kEnd, sent_);
  worker_->Changed();
}

Status UcxLink::WhyOver() const {
  if (closed_ || !lost_.has_value()) return LinkClosed();
  // The other end said goodbye and left: that it is gone is no loss.
  return peer_sent_.has_value() && inbox_.arrived() == *peer_sent_ ? LinkClosed() : *lost_;
}

void UcxLink::Lose(Status why) {
  if (!lost_.has_value()) lost_ = std::move(why);
  worker_->Changed();
}

void UcxLink::OnLost(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  UcxLink& link = *static_cast<UcxLink*>(self);
  if (link.lost_status_ == UCS_OK) link.lost_status_ = status;
  if (status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_TIMED_OUT) {
    link.Lose(Status(StatusCode::kUnavailable, "the other host does not answer any more"));
  } else if (status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_CANCELED || status == UCS_ERR_NOT_CONNECTED) {
    link.Lose(Status(StatusCode::kUnavailable, "the peer closed the connection"));
  } else {
    link.Lose(Status(StatusCode::kUnavailable,
                     std::string("the connection to the other host failed: ") + link.worker_->ucx().ucs_status_string(status)));
  }
}

void UcxLink::Finish(AdaptiveSpin& spin, const bool& done) {
  uint64_t until_ns = 0;
  bool finished = false;
  worker_->Wait(
      spin,
      [&] {
        until_ns = lost_.has_value() ? 0 : closed_ns_ + kLingerNs;
        finished = done;
        return done || closed_ || lost_.has_value();
      },
      kNoDeadline);
  if (finished || worker_->Wait(
                      spin, [&] { return done; }, until_ns))
    return;
  {
    UcxWorker::Hold hold(*worker_);
    Lose(Status(StatusCode::kUnavailable, "the other host did not take what was sent to it"));
    Abandon();
  }
  // UCX may still use the memory: nothing can go on before it has ended that.
  while (!worker_->Wait(
      spin, [&] { return done; }, MonotonicNs() + kGiveUpNs)) {
    LogWarning("UCX has not ended a message of a lost link");
  }
}

void UcxLink::Tick() {
  if (!hello_.has_value() || closed_ || lost_.has_value() || peer_sent_.has_value()) return;
  if (MonotonicNs() - heard_ns_ > kTcpSilenceMsMax * uint64_t{1'000'000})
    return OnLost(this, endpoint_, UCS_ERR_ENDPOINT_TIMEOUT);
  PostMessage(UcxMessageKind::kAlive, 0);
}

void UcxLink::Abandon() {
  if (endpoint_ == nullptr) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  params.cb.send = OnEndpointClosed;
  params.user_data = this;
  const ucs_status_ptr_t request = worker_->ucx().ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &params);
  if (!UCS_PTR_IS_PTR(request)) return;
  endpoint_closing_ = true;
  worker_->Unfinished(1);
}

void UcxLink::OnEndpointClosed(void* request, ucs_status_t status, void* self) {
  UcxLink& link = *static_cast<UcxLink*>(self);
  link.endpoint_closing_ = false;
  link.worker_->Unfinished(-1);
  link.worker_->ucx().ucp_request_free(request);
  link.worker_->Changed();
}

}  // namespace tessera
