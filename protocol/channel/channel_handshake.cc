// How a channel begins: hello, welcome or refusal.
#include <unistd.h>

#include <utility>

#include "protocol/base/check.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

Status TooLarge(const char* what) {
  return Status(StatusCode::kInvalidArgument, std::string("the ") + what + " does not fit into one message of " +
                                                  std::to_string(kControlMessageBytesMax) + " bytes");
}

Status Unexpected(const char* wanted) {
  return Status(StatusCode::kProtocolViolation,
                std::string("the peer sent something else than a ") + wanted + ": is it another program than tessera?");
}

// What Create() makes; a welcome with anything else is not one of ours.
Status CheckWelcome(const ServerWelcome& welcome, const ClientHello& hello, size_t fds, uint64_t rings_bytes) {
  const char* wrong = nullptr;
  if (welcome.segments.size() != 2 || fds != 2) {
    wrong = "a wrong number of segments";
  } else if (welcome.segments[0].id != kRingsSegment || welcome.segments[0].kind != SegmentKind::kRings ||
             welcome.segments[1].id != kStagingSegment || welcome.segments[1].kind != SegmentKind::kStaging) {
    wrong = "unknown segments";
  } else if (welcome.sizes != BoundedSizes(welcome.sizes) || welcome.segments[0].size_bytes != rings_bytes ||
             welcome.segments[1].size_bytes != welcome.sizes.staging_bytes) {
    wrong = "impossible sizes";
  } else if (welcome.session_index != hello.session_index) {
    wrong = "another session index than it was asked for";
  } else if (hello.window_rows != 0 && (welcome.window_row >= 64 || (hello.window_rows >> welcome.window_row & 1) == 0)) {
    wrong = "an address window that was not offered";
  } else if (hello.mirrored && !welcome.mirrored) {
    wrong = "a channel that is not mirrored, where a link needs it";
  }
  if (wrong == nullptr) return Status::Ok();
  return Status(StatusCode::kProtocolViolation, std::string("the server's welcome has ") + wrong);
}

}  // namespace

void Refuse(int socket, const Status& why) {
  CHECK(!why.ok());
  Encoder encoder;
  ServerRefusal{why.code(), why.message()}.Encode(encoder);
  const Status sent = SendMessage(socket, encoder.bytes(), {}, MonotonicNs() + 1'000'000'000);
  if (!sent.ok()) LogDebug("a refusal could not be sent: {}", sent.message());
}

Result<ClientHello> ReceiveHello(int socket, uint64_t own_spec_hash, uint64_t deadline_ns) {
  Result<SocketMessage> message = ReceiveMessage(socket, kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return message.status();
  Status status;
  if (ControlKindOf(message->bytes) != ControlKind::kClientHello || !message->fds.empty()) {
    status = Unexpected("hello");
  } else {
    Result<ClientHello> hello = ClientHello::Decode(message->bytes);
    if (hello.ok()) {
      status = CheckPeerVersion("client", hello->wire_version, hello->spec_hash, own_spec_hash);
      if (status.ok()) return hello;
    } else {
      status = hello.status();
    }
  }
  Refuse(socket, status);
  return status;
}

Result<std::unique_ptr<Channel>> Channel::Create(UniqueFd socket, ServerWelcome* welcome, uint64_t deadline_ns, Files* files) {
  std::unique_ptr<Channel> channel(
      new Channel(Side::kServer, std::move(socket), BoundedSizes(welcome->sizes), welcome->mirrored));
  const Status status = channel->Welcome(welcome, deadline_ns, files);
  if (status.ok()) return channel;
  Refuse(channel->socket(), status);
  return status;
}

Status Channel::Welcome(ServerWelcome* welcome, uint64_t deadline_ns, Files* files) {
  const uint64_t rings_bytes = RingsBytes(sizes_);
  Result<UniqueFd> rings = CreateSegmentFile("tessera-rings", rings_bytes);
  if (!rings.ok()) return rings.status();
  Result<UniqueFd> staging = CreateSegmentFile("tessera-staging", sizes_.staging_bytes);
  if (!staging.ok()) return staging.status();
  RETURN_IF_ERROR(MapWelcome(rings->get(), staging->get()));

  welcome->sizes = sizes_;
  welcome->segments = {{kRingsSegment, SegmentKind::kRings, rings_bytes, 0, 0},
                       {kStagingSegment, SegmentKind::kStaging, sizes_.staging_bytes, 0, 0}};
  if (welcome->snapshot.size() > kSnapshotBytesMax) return TooLarge("snapshot of the devices");
  Encoder encoder(kControlMessageBytesMax);
  welcome->Encode(encoder);
  if (!encoder.ok()) return TooLarge("welcome");
  const int fds[] = {rings->get(), staging->get()};
  RETURN_IF_ERROR(SendMessage(socket_.get(), encoder.bytes(), fds, deadline_ns));
  if (files != nullptr) *files = {std::move(*rings), std::move(*staging)};
  return Status::Ok();
}

Result<std::unique_ptr<Channel>> Channel::Attach(UniqueFd socket, const ClientHello& hello, ServerWelcome* welcome,
                                                 uint64_t deadline_ns, Files* files) {
  Encoder encoder(kControlMessageBytesMax);
  hello.Encode(encoder);
  if (!encoder.ok()) return TooLarge("hello");
  RETURN_IF_ERROR(SendMessage(socket.get(), encoder.bytes(), {}, deadline_ns));
  Result<SocketMessage> message = ReceiveMessage(socket.get(), kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return message.status();

  if (ControlKindOf(message->bytes) == ControlKind::kServerRefusal) {
    Result<ServerRefusal> refusal = ServerRefusal::Decode(message->bytes);
    if (!refusal.ok()) return refusal.status();
    return Status(refusal->code, refusal->sentence);
  }
  if (ControlKindOf(message->bytes) != ControlKind::kServerWelcome) return Unexpected("welcome");
  Result<ServerWelcome> received = ServerWelcome::Decode(message->bytes);
  if (!received.ok()) return received.status();
  RETURN_IF_ERROR(CheckPeerVersion("server", received->wire_version, received->spec_hash, hello.spec_hash));
  const bool sizes_ok = received->sizes == BoundedSizes(received->sizes);
  const uint64_t rings_bytes = sizes_ok ? RingsBytes(received->sizes) : 0;
  RETURN_IF_ERROR(CheckWelcome(*received, hello, message->fds.size(), rings_bytes));
  RETURN_IF_ERROR(CheckSegmentFile(message->fds[0].get(), rings_bytes));
  RETURN_IF_ERROR(CheckSegmentFile(message->fds[1].get(), received->sizes.staging_bytes));

  std::unique_ptr<Channel> channel(new Channel(Side::kClient, std::move(socket), received->sizes, received->mirrored));
  RETURN_IF_ERROR(channel->MapWelcome(message->fds[0].get(), message->fds[1].get()));
  if (files != nullptr) *files = {std::move(message->fds[0]), std::move(message->fds[1])};
  *welcome = std::move(*received);
  return channel;
}

Result<std::unique_ptr<Channel>> Channel::Adopt(Parts parts) {
  if (parts.sizes != BoundedSizes(parts.sizes)) {
    return Status(StatusCode::kProtocolViolation, "a channel that is to go on has impossible sizes");
  }
  RETURN_IF_ERROR(CheckSegmentFile(parts.files.rings.get(), RingsBytes(parts.sizes)));
  RETURN_IF_ERROR(CheckSegmentFile(parts.files.staging.get(), parts.sizes.staging_bytes));
  std::unique_ptr<Channel> channel(new Channel(parts.side, std::move(parts.socket), parts.sizes, true));
  if (parts.side == Side::kServer) channel->peer_process_ = std::move(parts.peer_process);
  RETURN_IF_ERROR(channel->MapWelcome(parts.files.rings.get(), parts.files.staging.get()));
  for (RingProducer* ring : {channel->commands_out_.get(), channel->answers_out_.get(), channel->replies_out_.get()}) {
    if (ring != nullptr) RETURN_IF_ERROR(ring->GoOn());
  }
  for (RingConsumer* ring :
       {channel->commands_in_.get(), channel->answers_in_.get(), channel->replies_in_.get(), channel->transfers_in_.get()}) {
    if (ring != nullptr) RETURN_IF_ERROR(ring->GoOn());
  }
  if (parts.goodbye) RETURN_IF_ERROR(channel->TakeGoodbye(*parts.goodbye));
  // Who was asleep may have been told to wake up by nobody.
  channel->WakeWaiters();
  return channel;
}

Status Channel::MapWelcome(int rings_fd, int staging_fd) {
  Result<Mapping> rings = Mapping::Map(rings_fd, RingsBytes(sizes_), 0, MapPlacement::Anywhere());
  if (!rings.ok()) return rings.status();
  Result<Mapping> staging = Mapping::Map(staging_fd, sizes_.staging_bytes, 0, MapPlacement::Anywhere());
  if (!staging.ok()) return staging.status();
  rings_ = std::move(*rings);
  staging_ = staging->bytes();
  RETURN_IF_ERROR(segments_.Insert(kStagingSegment, std::move(*staging)));
  OpenRings(rings_.data());
  return Status::Ok();
}

}  // namespace tessera
