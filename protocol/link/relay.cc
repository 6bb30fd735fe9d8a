#include "protocol/link/relay.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr int kWatchSliceMs = 50;

Status Violation(const std::string& what) { return Status(StatusCode::kProtocolViolation, what); }

Status SendControl(Link& link, std::span<const std::byte> message) {
  return link.Send({FrameKind::kControl, 0, message.size(), 0, 0}, message);
}

// The next frame, which must be a control message: before a session has begun nothing else has a meaning.
Result<std::vector<std::byte>> ReceiveControl(Link& link) {
  std::vector<std::byte> message;
  Result<FrameHeader> header = link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    if (header.kind != FrameKind::kControl || header.bytes > kControlMessageBytesMax) {
      return Violation("the link brought something else than a message of the handshake");
    }
    message.resize(header.bytes);
    return std::span(message);
  });
  if (!header.ok()) return header.status();
  return message;
}

// The other host's answer to a message.
Result<std::vector<std::byte>> Ask(Link& link, std::span<const std::byte> message) {
  RETURN_IF_ERROR(SendControl(link, message));
  return ReceiveControl(link);
}

// Tells the other host why there is no session. Failure to send it is of no interest.
Status RefuseOver(Link& link, const Status& why) {
  Encoder encoder(kControlMessageBytesMax);
  ServerRefusal{why.code(), why.message()}.Encode(encoder);
  const Status sent = SendControl(link, encoder.bytes());
  if (!sent.ok()) LogDebug("a refusal could not be sent: {}", sent.message());
  return why;
}

// How a connection ends on which the client asked a question (server_query.h) instead of saying hello.
Status Answered() { return Status(StatusCode::kUnavailable, "the client asked a question and left"); }

}  // namespace

Relay::Relay(std::unique_ptr<Channel> channel, Link& link) : channel_(std::move(channel)), link_(link) {
  const auto source = [this](TransferRing id, RingConsumer& ring) { sources_.push_back(std::make_unique<Source>(id, ring)); };
  const auto sink = [this](TransferRing id, RingProducer& ring) { sinks_.push_back(std::make_unique<Sink>(id, ring)); };
  if (channel_->side() == Channel::Side::kServer) {
    source(TransferRing::kCommands, channel_->commands_in());
    source(TransferRing::kAnswers, channel_->answers_in());
    sink(TransferRing::kReplies, channel_->replies_out());
  } else {
    source(TransferRing::kReplies, channel_->replies_in());
    sink(TransferRing::kCommands, channel_->commands_out());
    sink(TransferRing::kAnswers, channel_->answers_out());
  }
  channel_->SetMessageHandler([this](SocketMessage message) { return TakeMessage(std::move(message)); });
}

Relay::~Relay() { link_.Close(); }

Result<std::unique_ptr<Relay>> Relay::AtClient(UniqueFd socket, Link& link, uint64_t deadline_ns) {
  Result<SocketMessage> message = ReceiveMessage(socket.get(), kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return message.status();
  if (ControlKindOf(message->bytes) == ControlKind::kServerQuery) {
    Result<std::vector<std::byte>> report = Ask(link, message->bytes);
    if (!report.ok()) {
      Refuse(socket.get(), report.status());
      return report.status();
    }
    RETURN_IF_ERROR(SendMessage(socket.get(), *report, {}, deadline_ns));
    return Answered();
  }
  Result<ClientHello> hello = ClientHello::Decode(message->bytes);
  if (!hello.ok()) return hello.status();
  // Whether the versions suit each other is the server's question; the rest of the message only makes sense in ours.
  if (const Status ours = CheckPeerVersion("client", hello->wire_version, hello->spec_hash, hello->spec_hash); !ours.ok()) {
    Refuse(socket.get(), ours);
    return ours;
  }
  hello->mirrored = true;
  Encoder encoder(kControlMessageBytesMax);
  hello->Encode(encoder);
  if (!encoder.ok()) return Violation("the client's hello is too long");
  Result<std::vector<std::byte>> answer = Ask(link, encoder.bytes());
  if (!answer.ok()) {
    Refuse(socket.get(), answer.status());
    return answer.status();
  }
  if (ControlKindOf(*answer) == ControlKind::kServerRefusal) {
    Result<ServerRefusal> refusal = ServerRefusal::Decode(*answer);
    if (!refusal.ok()) return refusal.status();
    const Status why(refusal->code, refusal->sentence);
    Refuse(socket.get(), why);
    return why;
  }
  Result<ServerWelcome> welcome = ServerWelcome::Decode(*answer);
  if (!welcome.ok()) return welcome.status();
  Result<std::unique_ptr<Channel>> channel = Channel::Create(std::move(socket), &*welcome, deadline_ns);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Relay>(new Relay(std::move(*channel), link));
}

Result<std::unique_ptr<Relay>> Relay::AtServer(UniqueFd socket, Link& link, uint64_t deadline_ns) {
  return AtServer([&socket]() -> Result<UniqueFd> { return std::move(socket); }, link, deadline_ns);
}

Result<std::unique_ptr<Relay>> Relay::AtServer(const Dial& dial, Link& link, uint64_t deadline_ns) {
  Result<std::vector<std::byte>> message = ReceiveControl(link);
  if (!message.ok()) return message.status();
  if (ControlKindOf(*message) == ControlKind::kServerQuery) {
    Result<UniqueFd> socket = dial();
    if (!socket.ok()) return RefuseOver(link, socket.status());
    RETURN_IF_ERROR(SendMessage(socket->get(), *message, {}, deadline_ns));
    Result<SocketMessage> report = ReceiveMessage(socket->get(), kControlMessageBytesMax, deadline_ns);
    if (!report.ok()) return report.status();
    RETURN_IF_ERROR(SendControl(link, report->bytes));
    return Answered();
  }
  Result<ClientHello> hello = ClientHello::Decode(*message);
  if (!hello.ok()) return hello.status();
  // A hello of another wire version cannot be read, and so not be passed on.
  const Status version = CheckPeerVersion("client", hello->wire_version, hello->spec_hash, hello->spec_hash);
  if (!version.ok()) return RefuseOver(link, version);
  if (!hello->mirrored) return Violation("the link brought the hello of a client that does not know of it");
  Result<UniqueFd> socket = dial();
  if (!socket.ok()) return RefuseOver(link, socket.status());
  ServerWelcome welcome;
  Result<std::unique_ptr<Channel>> channel = Channel::Attach(std::move(*socket), *hello, &welcome, deadline_ns);
  if (!channel.ok()) return RefuseOver(link, channel.status());
  Encoder encoder(kControlMessageBytesMax);
  welcome.Encode(encoder);
  const Status sent = SendControl(link, encoder.bytes());
  if (!sent.ok()) {
    (*channel)->Fail(sent);
    return sent;
  }
  return std::unique_ptr<Relay>(new Relay(std::move(*channel), link));
}

Status Relay::Run() {
  std::vector<std::thread> threads;
  sending_.store(static_cast<int>(sources_.size()));
  for (auto& source : sources_) threads.emplace_back([this, &source] { SendRing(*source); });
  for (auto& sink : sinks_) threads.emplace_back([this, &sink] { SendAcks(*sink); });
  threads.emplace_back([this] { SendRanges(); });
  std::thread receiving([this] { ReceiveFrames(); });
  WatchSocket();
  for (auto& sink : sinks_) {
    MutexLock lock(sink->mutex);
    sink->ending = true;
    sink->changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  link_.Close();
  receiving.join();
  return channel_->peer_left() ? Status::Ok() : channel_->Check();
}

void Relay::Stop() {
  channel_->Fail(Status(StatusCode::kUnavailable, "the link was stopped"));
}

// --- from this host to the link ---

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
  if (source.ring.broken()) return Violation("the peer broke the rules of a ring");
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
    if (record.size() != sizeof(TransferRecord)) return Violation("the peer sent a malformed transfer");
    TransferRecord transfer;
    std::memcpy(&transfer, record.data(), sizeof(transfer));
    in.Release();
    RETURN_IF_ERROR(SendTransfer(transfer));
  }
  return in.broken() ? Violation("the peer broke the rules of the ring of transfers") : Status::Ok();
}

Status Relay::SendTransfer(const TransferRecord& transfer) {
  if (transfer.id != kTransferRecord || transfer.number != transfers_sent_ + 1) {
    return Violation("the peer sent a transfer out of order");
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
    return Violation("the peer published a range outside of segment " + std::to_string(transfer.segment));
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
    return Violation("the peer sent a message that has no place in a session");
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
    return Violation("the peer offered a segment that cannot be mirrored");
  }
  const int fd = message.fds[0].get();
  RETURN_IF_ERROR(CheckSegmentFile(fd, offer.size_bytes));
  return AddSegment(offer, fd);
}

void Relay::WatchSocket() {
  while (sending_.load() != 0) {
    pollfd ready = {channel_->socket(), POLLIN, 0};
    poll(&ready, 1, kWatchSliceMs);
    const bool alive = channel_->ProcessSocket().ok();
    {
      MutexLock lock(send_mutex_);
      const Status sent = SendControls();
      if (!sent.ok()) channel_->Fail(sent);
    }
    // A hung-up socket is always readable: no poll of it can wait any more.
    if (!alive) poll(nullptr, 0, 1);
  }
}

// --- from the link to this host ---

void Relay::ReceiveFrames() {
  for (;;) {
    Result<FrameHeader> header = link_.Receive([this](const FrameHeader& header) { return PlaceOf(header); });
    const Status status = header.ok() ? Arrived(*header) : header.status();
    if (status.ok()) continue;
    channel_->Fail(status.code() == StatusCode::kUnavailable ? Status(status.code(), "the link to the other host is lost")
                                                             : status);
    return link_.Close();
  }
}

Result<std::span<std::byte>> Relay::PlaceOf(const FrameHeader& header) {
  if (header.bytes > kFrameBytesMax) return Violation("the link brought a frame that is too long");
  switch (header.kind) {
    case FrameKind::kControl:
      received_.resize(header.bytes);
      return std::span(received_);
    case FrameKind::kRing: {
      const Sink* sink = FindSink(header.target);
      if (sink == nullptr || header.position != sink->received) return Violation("the link brought ring bytes out of order");
      Result<uint64_t> released = sink->ring.Released();
      if (!released.ok()) return released.status();
      const uint64_t end = header.position + header.bytes;
      if (end - *released > sink->ring.size_bytes() || header.number < sink->visible || header.number > end) {
        return Violation("the link brought more ring bytes than fit");
      }
      received_.resize(header.bytes);
      return std::span(received_);
    }
    case FrameKind::kTransfer: {
      // Numbers may be left out: of ranges whose segment was closed before they were sent.
      if (header.number < transfer_received_) return Violation("the link brought a transfer out of order");
      const auto bytes = FindRange(header.target, header.position, header.bytes, &receiving_into_);
      if (bytes.data() != nullptr) return bytes;
      if (!IsClosed(header.target)) return Violation("the link brought a range outside of its segment");
      received_.resize(header.bytes);
      return std::span(received_);
    }
    case FrameKind::kAck:
      if (header.bytes == 0) return std::span<std::byte>();
      break;
    case FrameKind::kNone:
      break;
  }
  return Violation("the link brought a frame of an unknown kind");
}

Status Relay::Arrived(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::kControl:
      return ControlArrived(received_);
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
      transfer_received_ = header.number;
      receiving_into_.reset();
      if (received_bytes_ != nullptr) received_bytes_->fetch_add(header.bytes, std::memory_order_relaxed);
      return Status::Ok();
    case FrameKind::kAck: {
      Source* source = FindSource(header.target);
      if (source == nullptr) return Violation("the link acknowledged a ring that is not ours");
      MutexLock lock(source->mutex);
      if (header.position < source->ring.position() || header.position > source->sent.load(std::memory_order_acquire)) {
        return Violation("the link acknowledged what was not sent");
      }
      source->ring.ReleaseTo(header.position);
      return Status::Ok();
    }
    case FrameKind::kNone:
      break;
  }
  return Violation("the link brought a frame of an unknown kind");
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
      CloseOnce(close->id);
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
      return Status::Ok();
    }
    default:
      return Violation("the link brought a message that has no place in a session");
  }
}

Status Relay::OfferArrived(const SegmentOffer& offer, std::span<const std::byte> message) {
  if (offer.kind == SegmentKind::kSharedFile || offer.size_bytes == 0 || offer.size_bytes % kPageBytes != 0 ||
      offer.size_bytes > kSegmentBytesMax) {
    return Violation("the link brought the offer of a segment that cannot be mirrored");
  }
  Result<UniqueFd> file = CreateSegmentFile("tessera-mirrored", offer.size_bytes);
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR(AddSegment(offer, file->get()));
  const int fd = file->get();
  const Status passed_on = channel_->SendControl(message, std::span(&fd, 1));
  if (!passed_on.ok()) LogDebug("a segment was not passed on: {}", passed_on.message());
  return Status::Ok();
}

// --- segments ---

Status Relay::AddSegment(const SegmentOffer& offer, int fd) {
  Result<Mapping> mapping = Mapping::Map(fd, offer.size_bytes, 0, Placement::Anywhere());
  if (!mapping.ok()) return mapping.status();
  MutexLock lock(segments_mutex_);
  if (segments_.size() >= SegmentTable::kSegmentsMax) {
    return Status(StatusCode::kResourceExhausted, "too many segments of host memory at once");
  }
  const bool added = segments_.emplace(offer.id, std::make_shared<const Mapping>(std::move(*mapping))).second;
  return added ? Status::Ok() : Violation("the peer offered segment " + std::to_string(offer.id) + " twice");
}

void Relay::CloseOnce(uint32_t id) {
  MutexLock lock(segments_mutex_);
  if (closed_once_.insert(id).second) return;
  closed_once_.erase(id);
  closed_twice_.insert(id);
  segments_.erase(id);
}

bool Relay::IsClosed(uint32_t id) {
  MutexLock lock(segments_mutex_);
  return closed_twice_.contains(id);
}

std::span<std::byte> Relay::FindRange(uint32_t segment, uint64_t offset, uint64_t bytes, Memory* memory) {
  if (segment == kStagingSegment) return channel_->segments().Resolve(segment, offset, bytes);
  MutexLock lock(segments_mutex_);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return {};
  *memory = found->second;
  const std::span<std::byte> all = (*memory)->bytes();
  return offset <= all.size() && bytes <= all.size() - offset ? all.subspan(offset, bytes) : std::span<std::byte>();
}

Relay::Source* Relay::FindSource(uint32_t id) {
  for (auto& source : sources_) {
    if (static_cast<uint32_t>(source->id) == id) return source.get();
  }
  return nullptr;
}

Relay::Sink* Relay::FindSink(uint32_t id) {
  for (auto& sink : sinks_) {
    if (static_cast<uint32_t>(sink->id) == id) return sink.get();
  }
  return nullptr;
}

}  // namespace tessera
