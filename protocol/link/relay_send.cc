// From this host to the link: what the peer said, published and read.
#include "protocol/link/relay.h"

#include <algorithm>
#include <cstring>

#include "protocol/base/log.h"
#include "protocol/link/relay_parts.h"

namespace tessera {

void Relay::SendRing(Source& source) {
  Status status;
  while (status.ok()) {
    status = source.ring.WaitPast(source.sent.load(std::memory_order_relaxed), kNoDeadline, channel_->stop());
    if (status.ok()) status = SendBatch(source);
  }
  if (sending_.fetch_sub(1) != 1) return;
  // Everything that the peer had said was sent; now its end is.
  if (const Status sent = SendEnd(status); !sent.ok()) LogDebug("the end of a session was not passed on: {}", sent.message());
  channel_->Fail(status);  // when the ring or the link is what failed
}

void Relay::SendRanges() {
  Status status;
  while (status.ok()) {
    // Several threads take ranges out under the mutex: what is seen here may be gone before we have it.
    status = channel_->transfers_in().Wait(kNoDeadline, channel_->stop());
    if (!status.ok()) break;
    MutexLock lock(send_mutex_);
    status = SendControls();
    if (status.ok()) status = SendTransfers();
  }
  channel_->Fail(status);
}

void Relay::SendAcks(Sink& sink) {
  uint64_t acked = 0;
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
    MutexLock lock(send_mutex_);
    if (!link_.Send({FrameKind::kAck, static_cast<uint32_t>(sink.id), 0, acked, 0}, {}).ok()) return;
  }
}

Status Relay::SendBatch(Source& source) {
  MutexLock lock(send_mutex_);
  uint64_t end = 0;
  {
    MutexLock ring_lock(source.mutex);
    end = source.ring.Published();
  }
  if (source.ring.broken()) return RelayViolation("the peer broke the rules of a ring");
  // In this order: what records up to `end` refer to is in the socket or in the ring of transfers by now.
  const Status alive = channel_->ProcessSocket();
  if (!alive.ok()) LogDebug("the peer has left: {}", alive.message());
  RETURN_IF_ERROR(SendControls());
  RETURN_IF_ERROR(SendTransfers());
  uint64_t visible = source.sent.load(std::memory_order_relaxed);
  for (uint64_t at = visible; at != end;) {
    const uint64_t bytes = std::min(end - at, kFrameBytesMax);
    send_buffer_.resize(bytes);
    source.ring.ReadAt(at, send_buffer_);
    if (at + bytes == end) visible = end;
    // Told before the frame is: the far side may acknowledge it at once.
    source.sent.store(at + bytes, std::memory_order_release);
    RETURN_IF_ERROR(link_.Send({FrameKind::kRing, static_cast<uint32_t>(source.id), bytes, at, visible}, send_buffer_));
    at += bytes;
  }
  return Status::Ok();
}

Status Relay::SendControls() {
  std::vector<std::vector<std::byte>> messages;
  {
    MutexLock lock(controls_mutex_);
    messages.swap(controls_);
  }
  for (const auto& message : messages) RETURN_IF_ERROR(SendControl(link_, message));
  return Status::Ok();
}

Status Relay::SendTransfers() {
  RingConsumer& in = channel_->transfers_in();
  for (;;) {
    const std::span<const std::byte> record = in.Peek();
    if (record.empty()) break;
    if (record.size() != sizeof(TransferRecord)) return RelayViolation("the peer sent a malformed transfer");
    TransferRecord transfer;
    std::memcpy(&transfer, record.data(), sizeof(transfer));
    in.Release();
    RETURN_IF_ERROR(SendTransfer(transfer));
  }
  return in.broken() ? RelayViolation("the peer broke the rules of the ring of transfers") : Status::Ok();
}

Status Relay::SendTransfer(const TransferRecord& transfer) {
  if (transfer.id != kTransferRecord || transfer.number != transfers_sent_ + 1) {
    return RelayViolation("the peer sent a transfer out of order");
  }
  transfers_sent_ = transfer.number;
  Memory memory;
  std::span<const std::byte> bytes = FindRange(transfer.segment, transfer.offset, transfer.length, &memory);
  if (bytes.data() == nullptr) {
    // Its offer was sent before, so it waits in the socket.
    const Status alive = channel_->ProcessSocket();
    if (!alive.ok()) LogDebug("the peer has left: {}", alive.message());
    bytes = FindRange(transfer.segment, transfer.offset, transfer.length, &memory);
  }
  RETURN_IF_ERROR(SendControls());  // the offer may have been taken from the socket just now, here or on another thread
  if (bytes.data() == nullptr) {
    if (IsClosed(transfer.segment)) return Status::Ok();  // nobody can look at it any more
    return RelayViolation("the peer published a range outside of segment " + std::to_string(transfer.segment));
  }
  uint64_t at = transfer.offset;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), kFrameBytesMax));
    // The peer may go on writing meanwhile: then a part of that travels as well, as shared memory would show it.
    RETURN_IF_ERROR(link_.Send({FrameKind::kTransfer, transfer.segment, part.size(), at, transfer.number}, part));
    bytes = bytes.subspan(part.size());
    at += part.size();
  }
  return Status::Ok();
}

Status Relay::SendEnd(const Status& why) {
  Encoder encoder;
  const bool in_order = channel_->peer_left();
  Goodbye{in_order ? StatusCode::kOk : why.code(), in_order ? "" : why.message()}.Encode(encoder);
  MutexLock lock(send_mutex_);
  RETURN_IF_ERROR(SendControls());
  return SendControl(link_, encoder.bytes());
}

Status Relay::TakeMessage(SocketMessage message) {
  Result<SegmentOffer> offer = SegmentOffer{};
  Result<SegmentClose> close = SegmentClose{};
  const ControlKind kind = ControlKindOf(message.bytes);
  if (kind == ControlKind::kSegmentOffer) {
    offer = SegmentOffer::Decode(message.bytes);
    if (!offer.ok()) return offer.status();
  } else if (kind == ControlKind::kSegmentClose) {
    close = SegmentClose::Decode(message.bytes);
    if (!close.ok()) return close.status();
  } else {
    return RelayViolation("the peer sent a message that has no place in a session");
  }
  {
    // First of all: who finds the segment known must also find its offer here, to send it ahead.
    MutexLock lock(controls_mutex_);
    controls_.push_back(message.bytes);
  }
  if (kind == ControlKind::kSegmentOffer) return TakeOffer(*offer, message);
  CloseOnce(close->id);
  return Status::Ok();
}

Status Relay::TakeOffer(const SegmentOffer& offer, const SocketMessage& message) {
  if (message.fds.size() != 1 || offer.kind == SegmentKind::kSharedFile || offer.file_offset != 0 ||
      offer.size_bytes % kPageBytes != 0 || offer.size_bytes > kSegmentBytesMax) {
    return RelayViolation("the peer offered a segment that cannot be mirrored");
  }
  const int fd = message.fds[0].get();
  RETURN_IF_ERROR(CheckSegmentFile(fd, offer.size_bytes));
  return AddSegment(offer, fd);
}

}  // namespace tessera
