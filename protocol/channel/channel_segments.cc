// Segments of a channel, and the messages on its socket.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

// A peer that breaks the protocol loses its session.
Status Violation(const std::string& what) { return Status(StatusCode::kProtocolViolation, "the peer " + what); }

// The file may end within the last page: what a process writes behind its end is the same page to the other one.
Status CheckSharedFile(int fd, uint64_t end) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Status::FromErrno("cannot look at a shared file", errno);
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) + kPageBytes <= end) {
    return Violation("offered more of a shared file than there is");
  }
  return Status::Ok();
}

// A few times in a process: how often it happens is the peer's affair, and the log is not its to fill.
void TellNotMapped(const SegmentOffer& offer, const Status& why) {
  constexpr int kToldMax = 8;
  static std::atomic<int> told{0};
  if (told.fetch_add(1, std::memory_order_relaxed) >= kToldMax) return;
  LogWarning("segment {} of {} bytes was not mapped: {}", offer.id, offer.size_bytes, why.message());
}

}  // namespace

void Channel::SetHostWindow(uint64_t address, uint64_t bytes) {
  window_address_ = address;
  window_bytes_ = bytes;
}

Result<uint32_t> Channel::OfferSegment(SegmentKind kind, uint64_t size_bytes, const MapPlacement& placement) {
  if (size_bytes == 0 || size_bytes > kSegmentBytesMax) {
    return Status(StatusCode::kInvalidArgument, "a segment cannot have " + std::to_string(size_bytes) + " bytes");
  }
  const uint64_t bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  Result<UniqueFd> file = CreateSegmentFile("tessera-segment", bytes);
  if (!file.ok()) return file.status();
  Result<Mapping> mapping = Mapping::Map(file->get(), bytes, 0, placement);
  if (!mapping.ok()) return mapping.status();
  const uint32_t id = next_segment_.fetch_add(2, std::memory_order_relaxed);
  RETURN_IF_ERROR(segments_.Insert(id, std::move(*mapping)));
  segments_.Claim(id);
  const uint64_t address = placement.how == MapPlacement::How::kAnywhere ? 0 : placement.address;
  return Offer(SegmentOffer{id, kind, bytes, address, 0}, file->get());
}

Result<uint32_t> Channel::OfferMapped(int fd, uint64_t file_offset, std::span<std::byte> bytes) {
  const auto address = reinterpret_cast<uint64_t>(bytes.data());
  if (bytes.empty() || bytes.size() % kPageBytes != 0 || address % kPageBytes != 0 || file_offset % kPageBytes != 0 ||
      bytes.size() > kSegmentBytesMax) {
    return Status(StatusCode::kInvalidArgument, "a shared file can only be offered in whole pages");
  }
  if (mirrored_) {
    return Status(StatusCode::kUnsupported, "a shared file cannot be offered to a server on another machine");
  }
  const uint32_t id = next_segment_.fetch_add(2, std::memory_order_relaxed);
  RETURN_IF_ERROR(segments_.InsertBorrowed(id, bytes));
  segments_.Claim(id);
  return Offer(SegmentOffer{id, SegmentKind::kSharedFile, bytes.size(), 0, file_offset}, fd);
}

Result<uint32_t> Channel::OfferFile(int fd, uint64_t file_offset, uint64_t bytes, const MapPlacement& placement) {
  if (bytes == 0 || bytes % kPageBytes != 0 || file_offset % kPageBytes != 0 || bytes > kSegmentBytesMax) {
    return Status(StatusCode::kInvalidArgument, "a shared file can only be offered in whole pages");
  }
  if (mirrored_) {
    return Status(StatusCode::kUnsupported, "a shared file cannot be offered to a server on another machine");
  }
  Result<Mapping> mapping = Mapping::Map(fd, bytes, file_offset, placement);
  if (!mapping.ok()) return mapping.status();
  const uint32_t id = next_segment_.fetch_add(2, std::memory_order_relaxed);
  RETURN_IF_ERROR(segments_.Insert(id, std::move(*mapping)));
  segments_.Claim(id);
  const uint64_t address = placement.how == MapPlacement::How::kAnywhere ? 0 : placement.address;
  return Offer(SegmentOffer{id, SegmentKind::kSharedFile, bytes, address, file_offset}, fd);
}

Result<uint32_t> Channel::Offer(const SegmentOffer& offer, int fd) {
  Encoder encoder;
  offer.Encode(encoder);
  const Status sent = SendControl(encoder.bytes(), std::span(&fd, 1));
  if (sent.ok()) {
    transfers_out_->TellElsewhere();
    return offer.id;
  }
  segments_.Remove(offer.id);
  return sent;
}

Status Channel::CloseSegment(uint32_t id) {
  if (id == kStagingSegment || id == kRingsSegment) {
    return Status(StatusCode::kInvalidArgument, "rings and staging live as long as their channel");
  }
  const uint64_t bytes = segments_.Find(id).size();
  if (!segments_.Remove(id)) return Status(StatusCode::kNotFound, "there is no segment " + std::to_string(id));
  PeerSegmentWent(id, bytes);
  Encoder encoder;
  SegmentClose{id}.Encode(encoder);
  const Status sent = SendControl(encoder.bytes(), {});
  // Unmapped it is; that a peer which is gone was not told changes nothing.
  if (!sent.ok()) LogDebug("closing segment {} was not passed on: {}", id, sent.message());
  return Status::Ok();
}

std::span<std::byte> Channel::Resolve(uint32_t segment, uint64_t offset, uint64_t length) {
  const std::span<std::byte> bytes = segments_.Resolve(segment, offset, length);
  if (bytes.data() != nullptr) return bytes;
  if (segments_.Find(segment).data() == nullptr) {
    // The offer was sent before the record that refers to it, so it waits in our socket.
    const Status status = ProcessSocket();
    if (!status.ok()) LogDebug("segment {} is not known: {}", segment, status.message());
  }
  // Also when it is known by now: another thread may have taken its offer since we looked.
  return segments_.Resolve(segment, offset, length);
}

Status Channel::ProcessSocket() {
  {
    MutexLock lock(socket_mutex_);
    const Status status = TakeMessages();
    if (!status.ok()) Fail(status);
  }
  return Check();
}

Status Channel::TakeMessages() {
  const FromSocket how = message_handler_ ? FromSocket::kLeave : FromSocket::kTake;
  for (;;) {
    Result<SocketMessage> message = ReceiveMessage(socket_.get(), kControlMessageBytesMax, 0, how);
    if (!message.ok()) {
      const StatusCode code = message.status().code();
      if (code == StatusCode::kTimedOut) return Status::Ok();     // nothing more waits
      if (code == StatusCode::kUnavailable) return Status::Ok();  // Check() notices
      return message.status();
    }
    RETURN_IF_ERROR(TakeMessage(std::move(*message)));
    if (how == FromSocket::kLeave) DropMessage(socket_.get());
  }
}

Status Channel::TakeCloses() {
  for (;;) {
    std::array<std::byte, 2 * sizeof(uint32_t)> start;  // what ControlKindOf() looks at
    const Result<size_t> size = PeekMessage(socket_.get(), start);
    if (!size.ok() || ControlKindOf(std::span(start).first(size.value())) != ControlKind::kSegmentClose) return Status::Ok();
    Result<SocketMessage> message = ReceiveMessage(socket_.get(), kControlMessageBytesMax, 0);
    if (!message.ok()) return Status::Ok();  // Check() notices
    RETURN_IF_ERROR(TakeMessage(std::move(*message)));
  }
}

Status Channel::TakeMessage(SocketMessage message) {
  const ControlKind kind = ControlKindOf(message.bytes);
  if (kind == ControlKind::kGoodbye) {
    Result<Goodbye> goodbye = Goodbye::Decode(message.bytes);
    if (!goodbye.ok()) return goodbye.status();
    if (message_handler_) RETURN_IF_ERROR(message_handler_(std::move(message)));
    return TakeGoodbye(*goodbye);
  }
  if (message_handler_) return message_handler_(std::move(message));
  if (kind == ControlKind::kSegmentOffer) {
    Result<SegmentOffer> offer = SegmentOffer::Decode(message.bytes);
    return offer.ok() ? TakeOffer(*offer, message) : offer.status();
  }
  if (kind == ControlKind::kSegmentClose) {
    // What our side uses stays until it has stopped and calls CloseSegment(). What it never began to use (the call that
    // named the segment failed before it was looked at) goes now: the peer may offer another one at the same address.
    Result<SegmentClose> close = SegmentClose::Decode(message.bytes);
    if (!close.ok()) return close.status();
    const uint64_t bytes = segments_.Find(close->id).size();
    if (segments_.RemoveUnclaimed(close->id)) {
      PeerSegmentWent(close->id, bytes);
    } else {
      MutexLock lock(refused_mutex_);
      if (refused_.erase(close->id) == 0) return Status::Ok();
    }
    Encoder encoder;
    SegmentClose{close->id}.Encode(encoder);  // a mirror between us forgets what both sides closed
    const Status sent = SendControl(encoder.bytes(), {});
    // A peer that has left needs no answer, and its good-bye is still to be read.
    return sent.code() == StatusCode::kUnavailable ? Status::Ok() : sent;
  }
  return Violation("sent a message that has no place in a session");
}

Status Channel::TakeGoodbye(const Goodbye& goodbye) {
  if (goodbye.code == StatusCode::kOk) {
    peer_left_.store(true, std::memory_order_release);
    End(Status(StatusCode::kUnavailable, "the peer left"));
  } else {
    End(Status(goodbye.code, "the peer ended the session: " + goodbye.sentence));
  }
  WakeWaiters();
  return Status::Ok();
}

Status Channel::TakeOffer(const SegmentOffer& offer, const SocketMessage& message) {
  if (message.fds.size() != 1) return Violation("offered a segment with " + std::to_string(message.fds.size()) + " descriptors");
  const bool from_server = offer.id % 2 == 1;
  if (from_server != (side_ == Side::kClient)) return Violation("offered a segment under an id of this side");
  // A relay that was started anew cannot know whether the one before it came to pass this on, and does so (again).
  if (mirrored_ && offer.size_bytes != 0 && segments_.Find(offer.id).size() == offer.size_bytes) return Status::Ok();
  if (offer.kind == SegmentKind::kRings || offer.kind == SegmentKind::kStaging) {
    return Violation("offered rings or staging after the welcome");
  }
  if (offer.size_bytes % kPageBytes != 0 || offer.size_bytes > kSegmentBytesMax || offer.address % kPageBytes != 0 ||
      offer.file_offset % kPageBytes != 0 || offer.file_offset > kSegmentBytesMax) {
    return Violation("offered a segment with impossible numbers");
  }
  MapPlacement placement = MapPlacement::Anywhere();
  if (offer.address != 0) {
    const bool inside = offer.size_bytes <= window_bytes_ && offer.address >= window_address_ &&
                        offer.address - window_address_ <= window_bytes_ - offer.size_bytes;
    if (!inside) return Violation("offered a segment outside of the agreed address window");
    if (segments_.Overlaps(offer.address, offer.size_bytes)) return Violation("offered a segment on top of another");
    placement = MapPlacement::OverReservation(offer.address);
  }
  const int fd = message.fds[0].get();
  if (offer.kind == SegmentKind::kSharedFile) {
    RETURN_IF_ERROR(CheckSharedFile(fd, offer.file_offset + offer.size_bytes));
  } else {
    if (offer.file_offset != 0) return Violation("offered a part of a segment");
    RETURN_IF_ERROR(CheckSegmentFile(fd, offer.size_bytes));
  }
  if (const Status room = RoomForSegments(peer_bytes_.load() + offer.size_bytes); !room.ok()) {
    RefuseOffer(offer, room);
    return Status::Ok();
  }
  Result<Mapping> mapping = Mapping::Map(fd, offer.size_bytes, offer.file_offset, placement);
  if (!mapping.ok()) {
    // Not the peer's fault. The call that refers to the segment will not find it and says so to the application.
    RefuseOffer(offer, mapping.status());
    return Status::Ok();
  }
  const Status inserted = segments_.Insert(offer.id, std::move(*mapping));
  if (inserted.code() == StatusCode::kResourceExhausted) {
    RefuseOffer(offer, inserted);
    return Status::Ok();
  }
  if (inserted.ok()) peer_bytes_.fetch_add(offer.size_bytes);
  return inserted;
}

void Channel::RefuseOffer(const SegmentOffer& offer, const Status& why) {
  TellNotMapped(offer, why);
  MutexLock lock(refused_mutex_);
  if (refused_.size() < SegmentTable::kSegmentsMax) refused_.emplace(offer.id, why);
}

Status Channel::WhyRefused(uint32_t segment) {
  MutexLock lock(refused_mutex_);
  const auto found = refused_.find(segment);
  return found == refused_.end() ? Status::Ok() : found->second;
}

Status Channel::RoomForSegments(uint64_t bytes) {
  MutexLock lock(room_mutex_);
  return segment_room_ ? segment_room_(bytes) : Status::Ok();
}

void Channel::PeerSegmentWent(uint32_t id, uint64_t bytes) {
  const bool of_server = id % 2 == 1;
  if (of_server != (side_ == Side::kClient)) return;
  const uint64_t left = peer_bytes_.fetch_sub(bytes) - bytes;
  static_cast<void>(RoomForSegments(left));
}

}  // namespace tessera
