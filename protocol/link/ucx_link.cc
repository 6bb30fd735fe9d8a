// Frames over a connected endpoint of UCX. How a connection comes about is in ucx_connection.cc.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/link/preamble.h"
#include "protocol/link/tcp_link.h"
#include "protocol/link/tcp_stream.h"
#include "protocol/link/ucx_link.h"
#include "protocol/link/ucx_parts.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "a UcxMessage travels as it lies in memory");

constexpr unsigned kMessageId = 1;
constexpr uint64_t kSecondNs = 1'000'000'000;
// How long an end that was closed waits for the other to take what was sent.
constexpr uint64_t kLingerNs = kSecondNs;
// What UCX may take to end what is unfinished, once the endpoint was given up.
constexpr uint64_t kGiveUpNs = 5 * kSecondNs;

}  // namespace

struct UcxLink::Registration {
  Registration(const UcxLibrary& ucx, ucp_context_h context, std::span<std::byte> memory, ucp_mem_h handle, bool owned)
      : ucx(ucx), context(context), memory(memory), handle(handle), owned(owned) {}
  ~Registration() {
    ucx.ucp_mem_unmap(context, handle);
    if (owned) munmap(memory.data(), memory.size());
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // Null when the devices cannot take it, as when the limit of locked memory is reached.
  static Registered Make(const UcxWorker& worker, std::span<std::byte> memory, bool owned) {
    const UcxLibrary& ucx = worker.ucx();
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory.data();
    params.length = memory.size();
    ucp_mem_h handle = nullptr;
    const ucs_status_t status = ucx.ucp_mem_map(worker.context(), &params, &handle);
    if (status == UCS_OK) return std::make_shared<const Registration>(ucx, worker.context(), memory, handle, owned);
    LogInfo("{} MiB could not be registered for RDMA ({}): copies of it are slower; raise the limit of locked memory (ulimit -l)",
            memory.size() >> 20, ucx.ucs_status_string(status));
    return nullptr;
  }

  const UcxLibrary& ucx;
  const ucp_context_h context;
  const std::span<std::byte> memory;
  const ucp_mem_h handle;
  const bool owned;
};

struct UcxLink::Outgoing {
  UcxLink* link = nullptr;
  UcxMessage message;
  std::byte* piece = nullptr;  // of buffer_, to be given back
  Registered registered;       // what the payload lies in
  bool* done = nullptr;        // where the sender waits for it
};

Result<std::unique_ptr<UcxLink>> UcxLink::Make(UcxReach reach) {
  Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::Make(reach);
  if (!worker.ok()) return worker.status();
  void* memory = mmap(nullptr, kUcxWindowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status::FromErrno("cannot map the buffer of a link", errno);
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), kUcxWindowBytes);
  Registered buffer = Registration::Make(**worker, bytes, true);
  if (buffer == nullptr) {
    munmap(memory, kUcxWindowBytes);
    return Status(StatusCode::kResourceExhausted,
                  "the buffer of a link cannot be registered for RDMA: raise the limit of locked memory (ulimit -l)");
  }
  auto link = std::unique_ptr<UcxLink>(new UcxLink(std::move(*worker), std::move(buffer), bytes));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = OnMessage;
  handler.arg = link.get();
  link->worker().SetTick([&link = *link] { link.Tick(); });
  UcxWorker::Hold hold(link->worker());
  if (link->worker().ucx().ucp_worker_set_am_recv_handler(link->worker().get(), &handler) == UCS_OK) return link;
  return Status(StatusCode::kInternal, "UCX takes no handler for messages");
}

UcxLink::UcxLink(std::unique_ptr<UcxWorker> worker, Registered buffer, std::span<std::byte> buffer_memory)
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
  if (!worker_->Wait(spin, [this] { return outgoing_ == 0 && !endpoint_closing_; }, MonotonicNs() + kGiveUpNs)) {
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

// --- Sending ---

bool UcxLink::HasRoom(uint64_t bytes) const {
  return sent_ - released_ < kUcxWindowFrames && sent_bytes_ - released_bytes_ + bytes <= kUcxWindowBytes;
}

Status UcxLink::Send(const FrameHeader& header, std::span<const std::byte> payload) {
  CHECK(header.bytes == payload.size() && payload.size() <= kFrameBytesMax);
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->link = this;
  outgoing->message = {UcxMessageKind::kFrame, 0, 0, header};
  outgoing->registered = payload.size() >= kUcxRendezvousBytes ? FindRegistered(payload) : nullptr;
  bool done = false;
  if (outgoing->registered != nullptr) outgoing->done = &done;
  std::span<std::byte> piece;
  const bool copied = outgoing->registered == nullptr && !payload.empty();
  worker_->Wait(send_spin_, [&] {
    if (Over()) return true;
    if (!HasRoom(payload.size())) return false;
    if (copied) piece = buffer_.Take(payload.size());
    return !copied || !piece.empty();
  }, kNoDeadline);
  if (copied && !piece.empty()) {
    std::memcpy(piece.data(), payload.data(), payload.size());
    payload = piece;
    outgoing->piece = piece.data();
    outgoing->registered = buffer_registration_;
  }
  {
    UcxWorker::Hold hold(*worker_);
    if (Over()) {
      if (outgoing->piece != nullptr) buffer_.GiveBack(outgoing->piece);
      return WhyOver();
    }
    outgoing->message.number = sent_++;
    sent_bytes_ += payload.size();
    const bool waits = outgoing->done != nullptr;
    Post(std::move(outgoing), payload);
    if (!waits) return Status::Ok();
  }
  // From the caller's own memory: until it was read.
  Finish(send_spin_, done);
  UcxWorker::Hold hold(*worker_);
  return lost_.has_value() ? WhyOver() : Status::Ok();
}

void UcxLink::Finish(AdaptiveSpin& spin, const bool& done) {
  uint64_t until_ns = 0;
  bool finished = false;
  worker_->Wait(spin, [&] {
    until_ns = lost_.has_value() ? 0 : closed_ns_ + kLingerNs;
    finished = done;
    return done || closed_ || lost_.has_value();
  }, kNoDeadline);
  if (finished || worker_->Wait(spin, [&] { return done; }, until_ns)) return;
  {
    UcxWorker::Hold hold(*worker_);
    Lose(Status(StatusCode::kUnavailable, "the other host did not take what was sent to it"));
    Abandon();
  }
  // UCX may still use the memory: nothing can go on before it has ended that.
  while (!worker_->Wait(spin, [&] { return done; }, MonotonicNs() + kGiveUpNs)) {
    LogWarning("UCX has not ended a message of a lost link");
  }
}

void UcxLink::PostMessage(UcxMessageKind kind, uint64_t number, uint64_t position) {
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->link = this;
  outgoing->message.kind = kind;
  outgoing->message.version = kind == UcxMessageKind::kHello ? kLinkVersion : 0;
  outgoing->message.number = number;
  outgoing->message.frame.position = position;
  Post(std::move(outgoing), {});
}

void UcxLink::Post(std::unique_ptr<Outgoing> outgoing, std::span<const std::byte> payload) {
  ++outgoing_;
  if (endpoint_ == nullptr) return Sent(std::move(outgoing), UCS_ERR_CANCELED);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  params.cb.send = OnSent;
  params.user_data = outgoing.get();
  params.flags = payload.size() >= kUcxRendezvousBytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  if (outgoing->registered != nullptr) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    params.memh = outgoing->registered->handle;
  }
  const ucs_status_ptr_t request = worker_->ucx().ucp_am_send_nbx(
      endpoint_, kMessageId, &outgoing->message, sizeof(outgoing->message), payload.data(), payload.size(), &params);
  if (!UCS_PTR_IS_PTR(request)) return Sent(std::move(outgoing), UCS_PTR_RAW_STATUS(request));
  outgoing.release();  // OnSent has it
  worker_->Unfinished(1);
}

void UcxLink::OnSent(void* request, ucs_status_t status, void* data) {
  std::unique_ptr<Outgoing> outgoing(static_cast<Outgoing*>(data));
  UcxLink& link = *outgoing->link;
  link.worker_->Unfinished(-1);
  link.worker_->ucx().ucp_request_free(request);
  link.Sent(std::move(outgoing), status);
}

void UcxLink::Sent(std::unique_ptr<Outgoing> outgoing, ucs_status_t status) {
  --outgoing_;
  if (outgoing->piece != nullptr) buffer_.GiveBack(outgoing->piece);
  if (outgoing->done != nullptr) *outgoing->done = true;
  if (status != UCS_OK) OnLost(this, endpoint_, status);
  worker_->Changed();
}

// --- Receiving ---

ucs_status_t UcxLink::OnMessage(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param) {
  UcxLink& link = *static_cast<UcxLink*>(self);
  UcxMessage message;
  if (header_bytes != sizeof(message)) {
    link.Lose(Status(StatusCode::kProtocolViolation, "the link brought a message that is no tessera's"));
    return UCS_OK;
  }
  std::memcpy(&message, header, sizeof(message));
  if (bytes != (message.kind == UcxMessageKind::kFrame ? message.frame.bytes : 0)) {
    link.Lose(Status(StatusCode::kProtocolViolation, "the link brought a frame whose length is not its payload's"));
    return UCS_OK;
  }
  return link.Arrived(message,
                      {message.frame, bytes != 0 ? data : nullptr, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0});
}

ucs_status_t UcxLink::Arrived(const UcxMessage& message, const UcxInbox::Frame& frame) {
  const auto refuse = [this](const char* what) { Lose(Status(StatusCode::kProtocolViolation, what)); };
  heard_ns_ = MonotonicNs();
  ucs_status_t keeps = UCS_OK;
  switch (message.kind) {
    case UcxMessageKind::kHello:
      if (hello_.has_value()) refuse("the link brought two greetings");
      hello_ = message;
      break;
    case UcxMessageKind::kFrame:
      if (const Status added = inbox_.Add(message.number, frame); !added.ok()) {
        Lose(added);
      } else if (frame.data != nullptr) {
        keeps = UCS_INPROGRESS;
      }
      break;
    case UcxMessageKind::kTaken:
      // Reports may overtake each other.
      if (message.number > sent_ || message.frame.position > sent_bytes_) refuse("the link took more than it was sent");
      released_ = std::max(released_, std::min(message.number, sent_));
      released_bytes_ = std::max(released_bytes_, std::min(message.frame.position, sent_bytes_));
      break;
    case UcxMessageKind::kEnd:
      if (peer_sent_.has_value() || message.number < inbox_.arrived()) refuse("the link brought an end that is none");
      peer_sent_ = message.number;
      break;
    case UcxMessageKind::kAlive:
      break;
    case UcxMessageKind::kEndSeen:
      if (!closed_) refuse("the link saw an end that there was not");
      end_seen_ = true;
      break;
    default:
      refuse("the link brought a message of an unknown kind");
  }
  AnswerEnd();
  worker_->Changed();
  return keeps;
}

void UcxLink::Tick() {
  if (!hello_.has_value() || closed_ || lost_.has_value() || peer_sent_.has_value()) return;
  if (MonotonicNs() - heard_ns_ > kTcpSilenceMsMax * uint64_t{1'000'000}) return OnLost(this, endpoint_, UCS_ERR_ENDPOINT_TIMEOUT);
  PostMessage(UcxMessageKind::kAlive, 0);
}

void UcxLink::AnswerEnd() {
  if (!peer_sent_.has_value() || end_answered_ || inbox_.arrived() != *peer_sent_) return;
  end_answered_ = true;
  PostMessage(UcxMessageKind::kEndSeen, 0);
}

Result<FrameHeader> UcxLink::Receive(const Place& place) {
  UcxInbox::Frame frame;
  bool got = false;
  const auto next = [&] {
    got = inbox_.HasNext();
    if (got) frame = inbox_.Take();
    return got || lost_.has_value() || closed_ || (peer_sent_.has_value() && inbox_.taken() >= *peer_sent_);
  };
  worker_->Wait(receive_spin_, next, kNoDeadline);
  if (!got) {
    UcxWorker::Hold hold(*worker_);
    return WhyOver();
  }
  Result<std::span<std::byte>> to = place(frame.header);
  if (to.ok() && frame.rendezvous) {
    RETURN_IF_ERROR(Fetch(frame, *to));
  } else {
    if (to.ok() && frame.data != nullptr) std::memcpy(to->data(), frame.data, frame.header.bytes);
    if (frame.data != nullptr) {
      UcxWorker::Hold hold(*worker_);
      worker_->ucx().ucp_am_data_release(worker_->get(), frame.data);
    }
    if (!to.ok()) return to.status();
  }
  if (inbox_.taken() - reported_ >= kUcxWindowFrames / 4 || inbox_.taken_bytes() - reported_bytes_ >= kUcxWindowBytes / 4) {
    ReportTaken();
  }
  return frame.header;
}

void UcxLink::ReportTaken() {
  UcxWorker::Hold hold(*worker_);
  if (lost_.has_value()) return;
  reported_ = inbox_.taken();
  reported_bytes_ = inbox_.taken_bytes();
  PostMessage(UcxMessageKind::kTaken, reported_, reported_bytes_);
}

Status UcxLink::Fetch(const UcxInbox::Frame& frame, std::span<std::byte> to) {
  const Registered registered = FindRegistered(to);
  {
    UcxWorker::Hold hold(*worker_);
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.recv_am = OnReceived;
    params.user_data = this;
    if (registered != nullptr) {
      params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
      params.memh = registered->handle;
    }
    received_ = false;
    const ucs_status_ptr_t request =
        worker_->ucx().ucp_am_recv_data_nbx(worker_->get(), frame.data, to.data(), frame.header.bytes, &params);
    if (UCS_PTR_IS_PTR(request)) {
      worker_->Unfinished(1);
    } else {
      received_ = true;
      received_status_ = UCS_PTR_RAW_STATUS(request);
    }
  }
  Finish(receive_spin_, received_);
  UcxWorker::Hold hold(*worker_);
  if (received_status_ == UCS_OK) return Status::Ok();
  OnLost(this, endpoint_, received_status_);
  return WhyOver();
}

void UcxLink::OnReceived(void* request, ucs_status_t status, size_t bytes, void* self) {
  UcxLink& link = *static_cast<UcxLink*>(self);
  link.received_ = true;
  link.received_status_ = status;
  link.worker_->Unfinished(-1);
  link.worker_->ucx().ucp_request_free(request);
  link.worker_->Changed();
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
    link.Lose(Status(StatusCode::kUnavailable, std::string("the connection to the other host failed: ") +
                                                   link.worker_->ucx().ucs_status_string(status)));
  }
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

// --- Registered memory ---

void UcxLink::Register(std::span<std::byte> memory) {
  Registered made = memory.empty() ? nullptr : Registration::Make(*worker_, memory, false);
  if (made == nullptr) return;
  MutexLock lock(registrations_mutex_);
  registrations_[memory.data()] = std::move(made);
}

void UcxLink::Forget(std::span<std::byte> memory) {
  Registered forgotten;  // ended without the mutex
  MutexLock lock(registrations_mutex_);
  const auto found = registrations_.find(memory.data());
  if (found == registrations_.end()) return;
  forgotten = std::move(found->second);
  registrations_.erase(found);
}

UcxLink::Registered UcxLink::FindRegistered(std::span<const std::byte> memory) {
  MutexLock lock(registrations_mutex_);
  auto after = registrations_.upper_bound(memory.data());
  if (after == registrations_.begin()) return nullptr;
  const Registered& before = std::prev(after)->second;
  const std::byte* end = before->memory.data() + before->memory.size();
  return memory.data() < end && memory.size() <= static_cast<size_t>(end - memory.data()) ? before : nullptr;
}

}  // namespace tessera
