// From this host to the link: sends what the peer has said, published and read.
#include "protocol/relay/relay.h"

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/relay/relay_parts.h"

namespace tessera {

template <typename Send>
Status Relay::Through(const Send& send) {
  MutexLock lock(send_mutex_);
  for (;;) {
    while (link_ == nullptr && over_.ok()) link_changed_.wait(send_mutex_);
    if (!over_.ok()) return over_;
    const Status sent = send();
    if (Flush().ok() && link_ != nullptr) return sent;
  }
}

Status Relay::Transmit(const FrameHeader& header, std::span<const std::byte> payload) {
  if (link_ == nullptr) return Status(StatusCode::kUnavailable, "the link is lost");
  return LoseLinkUnless(link_->SendSoon(header, payload));
}

Status Relay::Flush() { return link_ == nullptr ? Status::Ok() : LoseLinkUnless(link_->Flush()); }

Status Relay::LoseLinkUnless(Status sent) {
  if (sent.ok()) return sent;
  // The receiving thread notices, and looks for the next link.
  link_->Close();
  link_.reset();
  return sent;
}

void Relay::SendRing(Source& source) {
  Status status;
  while (status.ok()) {
    status = source.ring.WaitPast(source.sent.load(std::memory_order_relaxed), kNoDeadline, channel_->stop());
    if (status.ok())
      status = Through([&]() REQUIRES(send_mutex_) {
        RETURN_IF_ERROR(AwaitRoomForControls());
        return SendBatch(source);
      });
  }
  if (sending_.fetch_sub(1) == 1) SayEnd(status);
  channel_->Fail(status);  // in case the ring or the link has failed
}

void Relay::SendRanges() {
  const TransferPlaces places{channel_->sizes().transfer_bytes};
  Status status;
  while (status.ok()) {
    const uint64_t sent_end = places.EndOf(transfers_sent_.load(std::memory_order_relaxed));
    status = channel_->transfers_in().WaitForCall(sent_end, kNoDeadline, channel_->stop());
    if (status.ok())
      status = Through([&]() REQUIRES(send_mutex_) {
        RETURN_IF_ERROR(SendControls());
        return SendTransfers();
      });
  }
  channel_->Fail(status);
}

void Relay::SendAcks(Sink& sink) {
  uint64_t acked = sink.acked.load();
  for (;;) {
    {
      MutexLock lock(sink.mutex);
      while (!sink.ending && sink.received.load() - acked < sink.AckStep()) sink.changed.wait(sink.mutex);
      if (sink.ending) return;
    }
    uint64_t released = acked;
    while (released - acked < sink.AckStep()) {
      if (!sink.ring.WaitForRelease(released, kNoDeadline, channel_->stop()).ok()) return;
      Result<uint64_t> now = sink.ring.Released();
      if (!now.ok()) return channel_->Fail(now.status());
      released = *now;
    }
    acked = released;
    sink.acked.store(acked);
    const FrameHeader ack = {FrameKind::kAck, static_cast<uint32_t>(sink.id), 0, acked, 0};
    if (!Through([&]() REQUIRES(send_mutex_) { return Transmit(ack, {}); }).ok()) return;
  }
}

Status Relay::SendBatch(Source& source) {
  uint64_t end = 0;
  {
    MutexLock ring_lock(source.mutex);
    end = source.ring.Published();
  }
  if (source.ring.broken()) return RelayViolation("the peer broke the rules of a ring");
  // The order matters: what records up to `end` refer to is in the socket or in the ring of transfers by now. The socket is read
  // only when the peer has said that it put an offer there.
  if (const uint32_t offers = channel_->transfers_in().ToldElsewhere(); offers != offers_seen_) {
    offers_seen_ = offers;
    const Status alive = channel_->ProcessSocket();
    if (!alive.ok()) LogDebug("the peer has left: {}", alive.message());
  }
  RETURN_IF_ERROR(SendControls());
  const TransferPlaces places{channel_->sizes().transfer_bytes};
  const uint64_t sent_end = places.EndOf(transfers_sent_.load(std::memory_order_relaxed));
  if (channel_->transfers_in().HeadWord() != static_cast<uint32_t>(sent_end)) RETURN_IF_ERROR(SendTransfers());
  for (uint64_t at = source.sent.load(std::memory_order_relaxed); at != end;) {
    const uint64_t bytes = std::min(end - at, kFrameBytesMax);
    send_buffer_.resize(bytes);
    source.ring.ReadAt(at, send_buffer_);
    if (at + bytes == end) source.visible = end;
    // Set before the frame is sent: the far side may acknowledge it at once.
    source.sent.store(at + bytes, std::memory_order_release);
    RETURN_IF_ERROR(Transmit({FrameKind::kRing, static_cast<uint32_t>(source.id), bytes, at, source.visible}, send_buffer_));
    at += bytes;
  }
  return Status::Ok();
}

Status Relay::SendControls() {
  for (;;) {
    std::vector<std::byte> message;
    uint64_t number = controls_sent_.load(std::memory_order_relaxed) + 1;
    {
      MutexLock lock(controls_mutex_);
      if (number > carriage_->recorded()) return Status::Ok();
      message = carriage_->Message(number);
    }
    controls_sent_.store(number, std::memory_order_release);
    RETURN_IF_ERROR(Transmit({FrameKind::kControl, 0, message.size(), 0, number}, message));
  }
}

// The records stay in their ring until the far side has told that their bytes are there (TransfersAcked). So the ring is also the
// list of what may have to be sent again, and its size bounds that list.
Status Relay::SendTransfers() {
  const TransferPlaces places{channel_->sizes().transfer_bytes};
  RingConsumer& in = channel_->transfers_in();
  uint64_t number = transfers_sent_.load(std::memory_order_relaxed);
  uint64_t end = 0;
  {
    MutexLock lock(transfers_mutex_);
    end = in.Published();
  }
  const uint64_t last = places.LastBefore(end);
  if (in.broken() || places.EndOf(last) != end) return RelayViolation("the peer broke the rules of the ring of transfers");
  while (number < last) {
    ++number;
    TransferRecord transfer;
    in.ReadAt(places.BeginOf(number), std::as_writable_bytes(std::span(&transfer, 1)));
    if (transfer.size_bytes != sizeof(transfer) || transfer.id != kTransferRecord || transfer.number != number) {
      return RelayViolation("the peer sent a malformed transfer");
    }
    RETURN_IF_ERROR(SendTransfer(transfer));
  }
  return Status::Ok();
}

Status Relay::SendTransfer(const TransferRecord& transfer) {
  Memory memory;
  std::span<const std::byte> bytes = FindRange(transfer.segment, transfer.offset, transfer.length, &memory);
  if (bytes.data() == nullptr) {
    // Its offer was sent earlier, so it waits in the socket.
    const Status alive = channel_->ProcessSocket();
    if (!alive.ok()) LogDebug("the peer has left: {}", alive.message());
    bytes = FindRange(transfer.segment, transfer.offset, transfer.length, &memory);
  }
  RETURN_IF_ERROR(SendControls());  // here or on another thread the offer may just have been taken from the socket
  if (bytes.data() == nullptr) {
    // The segment is closed on both sides, so nobody can look at it any more. Only the transfer's number is told.
    if (!IsClosed(transfer.segment)) {
      return RelayViolation("the peer published a range outside of segment " + std::to_string(transfer.segment));
    }
    bytes = {};
  }
  uint64_t at = transfer.offset;
  bool whole = false;
  do {
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), kFrameBytesMax));
    whole = part.size() == bytes.size();
    // Set before the frame is sent: the far side may acknowledge it at once.
    if (whole) transfers_sent_.store(transfer.number, std::memory_order_release);
    // The peer may go on writing meanwhile. Then a part of that travels as well, as with shared memory.
    const FrameKind kind = whole ? FrameKind::kTransfer : FrameKind::kTransferPart;
    RETURN_IF_ERROR(Transmit({kind, transfer.segment, part.size(), at, transfer.number}, part));
    bytes = bytes.subspan(part.size());
    at += part.size();
  } while (!whole);
  return Status::Ok();
}

void Relay::SayEnd(const Status& why) {
  Encoder encoder;
  const bool in_order = channel_->peer_left();
  Goodbye{in_order ? StatusCode::kOk : why.code(), in_order ? "" : why.message()}.Encode(encoder);
  {
    MutexLock lock(send_mutex_);
    end_.assign(encoder.bytes().begin(), encoder.bytes().end());
  }
  const Status sent = Through([&]() REQUIRES(send_mutex_) { return SendEnd(); });
  if (!sent.ok()) LogDebug("the end of a session was not passed on: {}", sent.message());
  end_said_ns_.store(MonotonicNs());
  Wake();
}

Status Relay::SendEnd() {
  RETURN_IF_ERROR(Resend());  // the end goes after everything else, also after what has to be sent again
  RETURN_IF_ERROR(SendControls());
  if (end_sent_) return Status::Ok();
  end_sent_ = true;
  return Transmit({FrameKind::kControl, 0, end_.size(), 0, controls_sent_.load(std::memory_order_relaxed) + 1}, end_);
}

Status Relay::TakeMessage(SocketMessage message) {
  // What the process before this one has recorded may still be on the socket.
  const bool again = std::exchange(first_message_, false);
  if (again && carriage_->WasLast(message.bytes)) return Status::Ok();
  switch (ControlKindOf(message.bytes)) {
    case ControlKind::kSegmentOffer: {
      Result<SegmentOffer> offer = SegmentOffer::Decode(message.bytes);
      if (!offer.ok()) return offer.status();
      return again && IsKnown(offer->id) ? Record(message.bytes) : TakeOffer(*offer, message);
    }
    case ControlKind::kSegmentClose: {
      Result<SegmentClose> close = SegmentClose::Decode(message.bytes);
      if (!close.ok()) return close.status();
      CloseSegment(close->id, CarriagePage::Segment::kClosedHere);
      return Record(message.bytes);
    }
    case ControlKind::kGoodbye: carriage_->RecordGoodbye(message.bytes); return Status::Ok();
    default: return RelayViolation("the peer sent a message that has no place in a session");
  }
}

Status Relay::TakeOffer(const SegmentOffer& offer, const SocketMessage& message) {
  if (message.fds.size() != 1 || offer.kind == SegmentKind::kSharedFile || offer.file_offset != 0 || offer.id == 0 ||
      offer.size_bytes % kPageBytes != 0 || offer.size_bytes > kSegmentBytesMax) {
    return RelayViolation("the peer offered a segment that cannot be mirrored");
  }
  const int fd = message.fds[0].get();
  RETURN_IF_ERROR(CheckSegmentFile(fd, offer.size_bytes));
  return AddSegment(offer, fd, message.bytes);
}

}  // namespace tessera
