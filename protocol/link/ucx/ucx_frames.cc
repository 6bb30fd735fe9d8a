// Frames over a connected endpoint of UCX: how they are sent and received.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "protocol/link/preamble.h"
#include "protocol/link/ucx/ucx_link.h"
#include "protocol/link/ucx/ucx_parts.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "a UcxMessage travels as it lies in memory");

}  // namespace

struct UcxLink::Outgoing {
  UcxLink* link = nullptr;
  UcxMessage message;
  std::byte* piece = nullptr;                         // of buffer_, to be given back
  std::shared_ptr<const UcxRegistration> registered;  // what the payload lies in
  bool* done = nullptr;                               // where the sender waits for it
};

// --- Sending ---

bool UcxLink::HasRoom(uint64_t bytes) const {
  return sent_ - released_ < kUcxWindowFrames && sent_bytes_ - released_bytes_ + bytes <= kUcxWindowBytes;
}

Status UcxLink::Send(const FrameHeader& header, std::span<const std::byte> payload) {
  CHECK(header.bytes == payload.size() && payload.size() <= kFrameBytesMax);
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->link = this;
  outgoing->message = {UcxMessageKind::kFrame, 0, 0, header};
  outgoing->registered = payload.size() >= kUcxRendezvousBytes ? registrations_.Find(payload) : nullptr;
  bool done = false;
  if (outgoing->registered != nullptr) outgoing->done = &done;
  std::span<std::byte> piece;
  const bool copied = outgoing->registered == nullptr && !payload.empty();
  worker_->Wait(
      send_spin_,
      [&] {
        if (Over()) return true;
        if (!HasRoom(payload.size())) return false;
        if (copied) piece = buffer_.Take(payload.size());
        return !copied || !piece.empty();
      },
      kNoDeadline);
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
    params.memh = outgoing->registered->handle();
  }
  const ucs_status_ptr_t request = worker_->ucx().ucp_am_send_nbx(
      endpoint_, kUcxMessageId, &outgoing->message, sizeof(outgoing->message), payload.data(), payload.size(), &params);
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
    case UcxMessageKind::kAlive: break;
    case UcxMessageKind::kEndSeen:
      if (!closed_) refuse("the link saw an end that there was not");
      end_seen_ = true;
      break;
    default: refuse("the link brought a message of an unknown kind");
  }
  AnswerEnd();
  worker_->Changed();
  return keeps;
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
  const auto registered = registrations_.Find(to);
  {
    UcxWorker::Hold hold(*worker_);
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.recv_am = OnReceived;
    params.user_data = this;
    if (registered != nullptr) {
      params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
      params.memh = registered->handle();
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

}  // namespace tessera
