// From the link to this host: checks frames and puts them where they belong.
#include "protocol/relay/relay.h"

#include <utility>

#include "protocol/base/log.h"
#include "protocol/relay/relay_parts.h"

namespace tessera {

void Relay::ReceiveFrames() {
  std::shared_ptr<Link> link;
  {
    MutexLock lock(link_mutex_);
    link = current_;
  }
  if (link == nullptr) link = GoOn(nullptr);
  while (link != nullptr) {
    Result<FrameHeader> header = link->Receive([this](const FrameHeader& header) { return PlaceOf(header); });
    const Status status = header.ok() ? Arrived(*header) : header.status();
    if (status.ok()) {
      const uint64_t frames = frames_received_.load(std::memory_order_relaxed);
      if (frames == 0) carriage_->page().heard.store(1);
      frames_received_.store(frames + 1, std::memory_order_relaxed);
      continue;
    }
    const std::shared_ptr<Link> lost = std::exchange(link, nullptr);
    link = status.code() == StatusCode::kUnavailable ? GoOn(lost) : GiveUp(status);
  }
}

Result<std::span<std::byte>> Relay::PlaceOf(const FrameHeader& header) {
  if (header.bytes > kFrameBytesMax) return RelayViolation("the link brought a frame that is too long");
  switch (header.kind) {
    case FrameKind::kControl:
      if (header.number != controls_received_ + 1) return RelayViolation("the link brought a message out of order");
      received_.resize(header.bytes);
      return std::span(received_);
    case FrameKind::kRing: {
      Sink* sink = FindSink(header.target);
      if (sink == nullptr || header.position != sink->received) {
        return RelayViolation("the link brought ring bytes out of order");
      }
      const uint64_t end = header.position + header.bytes;
      if (end > sink->room_end) {
        // The reader writes its word for every record, so it is not read for every frame.
        Result<uint64_t> released = sink->ring.Released();
        if (!released.ok()) return released.status();
        sink->room_end = *released + sink->ring.size_bytes();
      }
      if (end > sink->room_end || header.number < sink->visible || header.number > end) {
        return RelayViolation("the link brought more ring bytes than fit");
      }
      received_.resize(header.bytes);
      return std::span(received_);
    }
    case FrameKind::kTransfer:
    case FrameKind::kTransferPart: {
      // If only a part of a transfer had arrived when the link was lost, all of it comes again.
      if (header.number != transfers_received_ + 1) return RelayViolation("the link brought a transfer out of order");
      if (header.bytes == 0) return std::span<std::byte>();
      const auto bytes = FindRange(header.target, header.position, header.bytes, &receiving_into_);
      if (bytes.data() != nullptr) return bytes;
      if (!IsClosed(header.target)) return RelayViolation("the link brought a range outside of its segment");
      received_.resize(header.bytes);
      return std::span(received_);
    }
    case FrameKind::kAck:
    case FrameKind::kProbe:
      if (header.bytes == 0) return std::span<std::byte>();
      break;
    case FrameKind::kNone:
    case FrameKind::kResume:
    case FrameKind::kJoin: break;
  }
  return RelayViolation("the link brought a frame of an unknown kind");
}

Status Relay::Arrived(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::kControl:
      RETURN_IF_ERROR(ControlArrived(received_));
      controls_received_.store(header.number);  // only after all of it is done (carriage.h)
      carriage_->page().offer_arriving.store(0);
      if (header.number - controls_told_.load() >= kControlsAckStep) Errand();
      return Status::Ok();
    case FrameKind::kRing: {
      Sink& sink = *FindSink(header.target);
      sink.ring.WriteAt(header.position, received_);
      sink.received.store(header.position + header.bytes);
      if (sink.received.load() - sink.acked.load() >= sink.AckStep()) {
        MutexLock lock(sink.mutex);
        sink.changed.notify_all();
      }
      if (header.number != sink.visible) sink.ring.PublishTo(header.number);
      sink.visible = header.number;
      return Status::Ok();
    }
    case FrameKind::kTransfer:
      transfers_received_.store(header.number);
      if (header.number - transfers_told_.load() >= TransferPlaces{channel_->sizes().transfer_bytes}.AckStep()) Errand();
      [[fallthrough]];
    case FrameKind::kTransferPart:
      receiving_into_.reset();
      if (received_bytes_ != nullptr) received_bytes_->fetch_add(header.bytes, std::memory_order_relaxed);
      return Status::Ok();
    case FrameKind::kAck: return AckArrived(header);
    case FrameKind::kProbe: probed_.store(true, std::memory_order_relaxed); return Status::Ok();
    case FrameKind::kResume:
    case FrameKind::kJoin:
    case FrameKind::kNone: break;
  }
  return RelayViolation("the link brought a frame of an unknown kind");
}

Status Relay::AckArrived(const FrameHeader& header) {
  if (header.target == kAckOfTransfers) return TransfersAcked(header.position);
  if (header.target == kAckOfControls) return ControlsAcked(header.position);
  Source* source = FindSource(header.target);
  if (source == nullptr) return RelayViolation("the link acknowledged a ring that is not ours");
  MutexLock lock(source->mutex);
  if (header.position < source->ring.position() || header.position > source->sent.load(std::memory_order_acquire)) {
    return RelayViolation("the link acknowledged what was not sent");
  }
  source->ring.ReleaseTo(header.position);
  return Status::Ok();
}

Status Relay::TransfersAcked(uint64_t number) {
  MutexLock lock(transfers_mutex_);
  if (number < transfers_acked_ || number > transfers_sent_.load(std::memory_order_acquire)) {
    return RelayViolation("the link acknowledged transfers that were not sent");
  }
  transfers_acked_ = number;
  channel_->transfers_in().ReleaseTo(TransferPlaces{channel_->sizes().transfer_bytes}.EndOf(number));
  return Status::Ok();
}

Status Relay::ControlsAcked(uint64_t count) {
  MutexLock lock(controls_mutex_);
  if (count < carriage_->acked() || count > controls_sent_.load(std::memory_order_acquire)) {
    return RelayViolation("the link acknowledged messages that were not sent");
  }
  carriage_->page().messages_acked.store(count, std::memory_order_release);
  return Status::Ok();
}

Status Relay::ControlArrived(std::span<const std::byte> message) {
  switch (ControlKindOf(message)) {
    case ControlKind::kSegmentOffer: {
      Result<SegmentOffer> offer = SegmentOffer::Decode(message);
      return offer.ok() ? OfferArrived(*offer, message) : offer.status();
    }
    case ControlKind::kSegmentClose: {
      Result<SegmentClose> close = SegmentClose::Decode(message);
      if (!close.ok()) return close.status();
      CloseSegment(close->id, CarriagePage::Segment::kClosedThere);
      const Status passed_on = channel_->SendControl(message, {});
      if (!passed_on.ok()) LogDebug("a segment's end was not passed on: {}", passed_on.message());
      return Status::Ok();
    }
    case ControlKind::kGoodbye: {
      Result<Goodbye> goodbye = Goodbye::Decode(message);
      if (!goodbye.ok()) return goodbye.status();
      if (goodbye->code == StatusCode::kOk) {
        channel_->Leave();
      } else {
        channel_->Fail(Status(goodbye->code, goodbye->sentence));
      }
      carriage_->page().end_heard.store(1);
      end_heard_.store(true);
      Wake();
      return Status::Ok();
    }
    default: return RelayViolation("the link brought a message that has no place in a session");
  }
}

Status Relay::OfferArrived(const SegmentOffer& offer, std::span<const std::byte> message) {
  if (offer.kind == SegmentKind::kSharedFile || offer.id == 0 || offer.size_bytes == 0 || offer.size_bytes % kPageBytes != 0 ||
      offer.size_bytes > kSegmentBytesMax) {
    return RelayViolation("the link brought the offer of a segment that cannot be mirrored");
  }
  // The file that the process before this one made, if it came that far: the peer may have it already.
  std::atomic<uint64_t>& arriving = carriage_->page().offer_arriving;
  const bool known =
      adopted_file_.valid() && arriving == offer.id && CheckSegmentFile(adopted_file_.get(), offer.size_bytes).ok();
  arriving.store(offer.id);
  Result<UniqueFd> file = known ? std::move(adopted_file_) : CreateSegmentFile("tessera-mirrored", offer.size_bytes);
  const Status added = known ? Status::Ok() : file.ok() ? AddSegment(offer, file->get(), {}) : file.status();
  if (added.code() == StatusCode::kResourceExhausted) return RefuseOffer(offer, added);
  RETURN_IF_ERROR(added);
  const int fd = file->get();
  const Status passed_on = channel_->SendControl(message, std::span(&fd, 1));
  if (!passed_on.ok()) LogDebug("a segment was not passed on: {}", passed_on.message());
  return Status::Ok();
}

Status Relay::RefuseOffer(const SegmentOffer& offer, const Status& why) {
  constexpr int kToldMax = 8;
  if (refusals_told_++ < kToldMax) LogWarning("a segment of {} bytes was refused: {}", offer.size_bytes, why.message());
  {
    MutexLock lock(segments_mutex_);
    carriage_->Refuse(offer.id);
  }
  Encoder encoder;
  SegmentClose{offer.id}.Encode(encoder);
  MutexLock lock(controls_mutex_);
  // If the process before this one ended here, the offer comes again, and its end is recorded already.
  if (!carriage_->WasLast(encoder.bytes())) RETURN_IF_ERROR(carriage_->Record(encoder.bytes()));
  Errand();
  return Status::Ok();
}

}  // namespace tessera
