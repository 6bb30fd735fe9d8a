// How a relay begins: hello and welcome over the link, or a question, or a refusal.
#include "protocol/link/relay.h"

#include <utility>

#include "protocol/base/log.h"
#include "protocol/link/relay_parts.h"

namespace tessera {
namespace {

// The next frame, which must be a control message: before a session has begun nothing else has a meaning.
Result<std::vector<std::byte>> ReceiveControl(Link& link) {
  std::vector<std::byte> message;
  Result<FrameHeader> header = link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    if (header.kind != FrameKind::kControl || header.bytes > kControlMessageBytesMax) {
      return RelayViolation("the link brought something else than a message of the handshake");
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
  if (!encoder.ok()) return RelayViolation("the client's hello is too long");
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
  if (!hello->mirrored) return RelayViolation("the link brought the hello of a client that does not know of it");
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

}  // namespace tessera
