#include "tests/server/daemon/raw_client.h"

#include <cstring>

#include "generated/messages/primary_context.h"
#include "generated/spec_hash.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

uint64_t In(int ms) { return MonotonicNs() + uint64_t(ms) * 1'000'000; }

}  // namespace

RawClient::RawClient(const std::string& path, const ChannelSizes& sizes) {
  Result<UniqueFd> socket = ConnectUnix(path);
  if (!socket.ok()) return;
  socket_ = std::move(*socket);
  ClientHello hello;
  hello.spec_hash = kSpecHash;
  hello.window_rows = 1;
  hello.sizes = sizes;
  hello.program = "raw_client";
  Encoder encoder;
  hello.Encode(encoder);
  if (!SendMessage(socket_.get(), encoder.bytes(), {}, In(10'000)).ok()) return;
  Result<SocketMessage> message = ReceiveMessage(socket_.get(), kControlMessageBytesMax, In(30'000));
  if (!message.ok() || message->fds.size() != 2) return;
  Result<ServerWelcome> welcome = ServerWelcome::Decode(message->bytes);
  if (!welcome.ok()) return;
  welcome_ = std::move(*welcome);
  Result<Mapping> rings = Mapping::Map(message->fds[0].get(), welcome_.segments[0].size_bytes, 0, MapPlacement::Anywhere());
  Result<Mapping> staging = Mapping::Map(message->fds[1].get(), welcome_.segments[1].size_bytes, 0, MapPlacement::Anywhere());
  if (!rings.ok() || !staging.ok()) return;
  rings_ = std::move(*rings);
  staging_ = std::move(*staging);
  commands_ = std::make_unique<RingProducer>(At(0));
  replies_ = std::make_unique<RingConsumer>(At(1));
  answers_ = std::make_unique<RingProducer>(At(2));
}

RingMemory RawClient::At(int ring) {
  const uint32_t bytes[] = {welcome_.sizes.command_bytes, welcome_.sizes.reply_bytes, welcome_.sizes.answer_bytes};
  std::byte* at = rings_.data();
  for (int i = 0; i < ring; ++i) at += RingMemory::TotalBytes(bytes[i]);
  return RingMemory::At(at, bytes[ring]);
}

uint64_t RawClient::SendBytes(uint32_t call, std::span<const std::byte> message, uint32_t flags) {
  std::vector<std::byte> record(PaddedRecordBytes(sizeof(RecordHeader) + message.size()));
  RecordHeader header{};
  header.size_bytes = static_cast<uint32_t>(record.size());
  header.call = call;
  header.flags = flags;
  header.thread = thread_;
  header.sequence = sequence_ + 1;
  header.context = context_.value();
  std::memcpy(record.data(), &header, sizeof(header));
  if (!message.empty()) std::memcpy(record.data() + sizeof(header), message.data(), message.size());
  return commands_->TryAppend(record) ? ++sequence_ : 0;
}

bool RawClient::SendPatiently(uint32_t call, std::span<const std::byte> message, uint32_t flags, int timeout_ms) {
  const uint64_t deadline_ns = In(timeout_ms);
  while (SendBytes(call, message, flags) == 0) {
    const Status waited = commands_->WaitForSpace(PaddedRecordBytes(sizeof(RecordHeader) + message.size()), deadline_ns, [this] {
      return SocketHungUp(socket_.get()) ? Status(StatusCode::kUnavailable, "hung up") : Status::Ok();
    });
    if (!waited.ok()) return false;
  }
  return true;
}

std::optional<RawClient::Reply> RawClient::WaitFor(uint64_t sequence, int timeout_ms) {
  RecordBuffer buffer;
  for (;;) {
    const auto hung_up = [this] {
      return SocketHungUp(socket_.get()) ? Status(StatusCode::kUnavailable, "hung up") : Status::Ok();
    };
    if (!replies_->Wait(In(timeout_ms), hung_up).ok()) return std::nullopt;
    const std::span<const std::byte> record = replies_->CopyOut(&buffer);
    if (record.empty()) continue;
    Reply reply;
    std::memcpy(&reply.header, record.data(), sizeof(reply.header));
    if (reply.header.kind != static_cast<uint32_t>(ReplyKind::kReply) || reply.header.sequence != sequence) continue;
    reply.payload.assign(record.begin() + sizeof(reply.header), record.end());
    return reply;
  }
}

bool RawClient::RetainContext() {
  HandleAllocator handles(HandleAllocator::Side::kClient, 0);
  cuDevicePrimaryCtxRetainRequest request;
  request.context = handles.Mint(HandleKind::kContext);
  request.device = 0;
  if (Call(request) != 0) return false;
  context_ = request.context;
  return true;
}

std::optional<std::string> RawClient::End(int timeout_ms) {
  const uint64_t deadline_ns = In(timeout_ms);
  for (;;) {
    Result<SocketMessage> message = ReceiveMessage(socket_.get(), kControlMessageBytesMax, deadline_ns);
    if (!message.ok()) {
      if (message.status().code() == StatusCode::kTimedOut) return std::nullopt;
      return "";
    }
    if (ControlKindOf(message->bytes) == ControlKind::kServerRefusal) return ServerRefusal::Decode(message->bytes)->sentence;
    if (ControlKindOf(message->bytes) != ControlKind::kGoodbye) continue;
    return Goodbye::Decode(message->bytes)->sentence;
  }
}

}  // namespace tessera
