// How a relay begins: a hello and a welcome over the link, a question, or a refusal.
#include "protocol/relay/relay.h"

#include <algorithm>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/relay/relay_parts.h"
#include "protocol/wire/holder.h"
#include "protocol/wire/server_query.h"

namespace tessera {
namespace {

// What one end says to the other before a session has begun: a control message, and what may come before it.
struct Words {
  std::vector<std::byte> message;  // empty: only `resume` was said
  std::vector<std::byte> resume;   // payload of a kResume frame
};

// Receives the next frame of the handshake. No other kind of frame has a meaning then.
Status ReceiveFrame(Link& link, Words* words) {
  return link
      .Receive([words](const FrameHeader& header) -> Result<std::span<std::byte>> {
        const bool known = header.kind == FrameKind::kControl || (header.kind == FrameKind::kResume && words->resume.empty());
        if (!known || header.bytes > kControlMessageBytesMax || header.bytes == 0) {
          return RelayViolation("the link brought something else than a message of the handshake");
        }
        std::vector<std::byte>& to = header.kind == FrameKind::kControl ? words->message : words->resume;
        to.resize(header.bytes);
        return std::span(to);
      })
      .status();
}

// Sends a message and returns the other host's answer.
Result<Words> Ask(Link& link, std::span<const std::byte> message) {
  RETURN_IF_ERROR(SendControl(link, message));
  Words words;
  while (words.message.empty()) RETURN_IF_ERROR(ReceiveFrame(link, &words));
  return words;
}

// A pointer to a link that somebody else owns.
std::shared_ptr<Link> Borrowed(Link& link) { return {std::shared_ptr<void>(), &link}; }

// A question in the form in which it goes on to the server, with the peer's name. Of a question of another wire version only that
// version is left.
Result<std::vector<std::byte>> AskedBy(const std::string& peer, std::span<const std::byte> message) {
  Result<ServerQuery> query = ServerQuery::Decode(message);
  if (!query.ok()) return query.status();
  query->holder = NameHolder(peer);
  Encoder encoder(kControlMessageBytesMax);
  query->Encode(encoder);
  return std::vector<std::byte>(encoder.bytes().begin(), encoder.bytes().end());
}

// The result for a connection on which the client asked a question (server_query.h) instead of saying hello.
Status Answered() { return Status(StatusCode::kUnavailable, "the client asked a question and left"); }

}  // namespace

uint64_t Relay::ChannelBytes(const ChannelSizes& sizes) {
  const ChannelSizes bounded = BoundedSizes(sizes);
  return bounded.staging_bytes + bounded.command_bytes + bounded.reply_bytes + bounded.answer_bytes + 2 * bounded.transfer_bytes;
}

Result<std::unique_ptr<Relay>> Relay::AtClient(UniqueFd socket, Link& link, uint64_t deadline_ns) {
  return AtClient(std::move(socket), Borrowed(link), nullptr, deadline_ns);
}

Result<std::unique_ptr<Relay>> Relay::AtClient(UniqueFd socket, std::shared_ptr<Link> link, std::unique_ptr<LinkSupply> supply,
                                               uint64_t deadline_ns, KeeperLine* keeper, const std::string& user) {
  Result<SocketMessage> message = ReceiveMessage(socket.get(), kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return message.status();
  if (ControlKindOf(message->bytes) == ControlKind::kServerQuery) {
    Result<Words> report = Ask(*link, message->bytes);
    if (!report.ok()) {
      Refuse(socket.get(), report.status());
      return report.status();
    }
    RETURN_IF_ERROR(SendMessage(socket.get(), report->message, {}, deadline_ns));
    return Answered();
  }
  Result<ClientHello> hello = ClientHello::Decode(message->bytes);
  if (!hello.ok()) return hello.status();
  // The server decides whether the versions fit. But this process can read the rest of the message only in its own version.
  if (const Status ours = CheckPeerVersion("client", hello->wire_version, hello->spec_hash, hello->spec_hash); !ours.ok()) {
    Refuse(socket.get(), ours);
    return ours;
  }
  hello->mirrored = true;
  hello->user = user.substr(0, kUserBytesMax);
  Encoder encoder(kControlMessageBytesMax);
  hello->Encode(encoder);
  if (!encoder.ok()) return RelayViolation("the client's hello is too long");
  Result<Words> answer = Ask(*link, encoder.bytes());
  if (!answer.ok()) {
    Refuse(socket.get(), answer.status());
    return answer.status();
  }
  if (ControlKindOf(answer->message) == ControlKind::kServerRefusal) {
    Result<ServerRefusal> refusal = ServerRefusal::Decode(answer->message);
    if (!refusal.ok()) return refusal.status();
    const Status why(refusal->code, refusal->sentence);
    Refuse(socket.get(), why);
    return why;
  }
  Result<ServerWelcome> welcome = ServerWelcome::Decode(answer->message);
  if (!welcome.ok()) return welcome.status();
  Resumption resumption;
  if (supply != nullptr && !answer->resume.empty()) {
    Result<ResumeOffer> offer = ResumeOffer::Decode(answer->resume);
    if (!offer.ok()) return offer.status();
    resumption = {std::move(supply), offer->token, offer->grace_ms * uint64_t{1'000'000}};
  }
  Channel::Files files;
  Result<std::unique_ptr<Channel>> channel = Channel::Create(std::move(socket), &*welcome, deadline_ns, &files);
  if (!channel.ok()) return channel.status();
  return Make(std::move(*channel), files, std::move(link), std::move(resumption), "", keeper);
}

Result<std::unique_ptr<Relay>> Relay::AtServer(UniqueFd socket, Link& link, uint64_t deadline_ns) {
  return AtServer([&socket](uint64_t) -> Result<UniqueFd> { return std::move(socket); }, Borrowed(link), nullptr, "",
                  deadline_ns);
}

Result<std::unique_ptr<Relay>> Relay::AtServer(const Dial& dial, std::shared_ptr<Link> link, ReturningLinks* returning,
                                               const std::string& peer, uint64_t deadline_ns, KeeperLine* keeper,
                                               const std::string& host) {
  Words words;
  RETURN_IF_ERROR(ReceiveFrame(*link, &words));
  if (words.message.empty()) {
    const Status taken = returning == nullptr ? RelayViolation("the link brought a session back, which is not possible here")
                                              : returning->Return(link, std::move(words.resume), peer);
    return taken.ok() ? Status(StatusCode::kUnavailable, "the link was taken to its session") : RefuseOver(*link, taken);
  }
  const std::span<const std::byte> message = words.message;
  if (ControlKindOf(message) == ControlKind::kServerQuery) {
    Result<std::vector<std::byte>> question = AskedBy(peer, message);
    if (!question.ok()) return question.status();
    Result<UniqueFd> socket = dial(0);
    if (!socket.ok()) return RefuseOver(*link, socket.status());
    RETURN_IF_ERROR(SendMessage(socket->get(), *question, {}, deadline_ns));
    Result<SocketMessage> report = ReceiveMessage(socket->get(), kControlMessageBytesMax, deadline_ns);
    if (!report.ok()) return report.status();
    RETURN_IF_ERROR(SendControl(*link, report->bytes));
    return Answered();
  }
  Result<ClientHello> hello = ClientHello::Decode(message);
  if (!hello.ok()) return hello.status();
  // A hello of another wire version cannot be read, so it cannot be passed on either.
  const Status version = CheckPeerVersion("client", hello->wire_version, hello->spec_hash, hello->spec_hash);
  if (!version.ok()) return RefuseOver(*link, version);
  if (!hello->mirrored) return RelayViolation("the link brought the hello of a client that does not know of it");
  hello->holder = NameHolder(peer);
  hello->host = host.substr(0, kHostBytesMax);
  Result<UniqueFd> socket = dial(ChannelBytes(hello->sizes));
  if (!socket.ok()) return RefuseOver(*link, socket.status());
  ServerWelcome welcome;
  Channel::Files files;
  Result<std::unique_ptr<Channel>> channel = Channel::Attach(std::move(*socket), *hello, &welcome, deadline_ns, &files);
  if (!channel.ok()) return RefuseOver(*link, channel.status());
  Encoder encoder(kControlMessageBytesMax);
  welcome.Encode(encoder);
  Resumption resumption;
  std::vector<std::byte> offer;
  if (returning != nullptr && returning->grace_ns() != 0) {
    resumption.grace_ns = returning->grace_ns();
    resumption.supply = returning->Admit(link, peer, &resumption.token);
    offer = ResumeOffer{resumption.token, static_cast<uint32_t>(resumption.grace_ns / 1'000'000)}.Encode();
  }
  // The keeper has the session before the client hears that there is one.
  Result<std::unique_ptr<Relay>> relay = Make(std::move(*channel), files, link, std::move(resumption), peer, keeper);
  if (!relay.ok()) return RefuseOver(*link, relay.status());
  Status sent = offer.empty() ? Status::Ok() : link->Send({FrameKind::kResume, 0, offer.size(), 0, 0}, offer);
  if (sent.ok()) sent = SendControl(*link, encoder.bytes());
  if (sent.ok()) return relay;
  (*relay)->channel_->Fail(sent);
  return sent;
}

Result<std::unique_ptr<Relay>> Relay::Make(std::unique_ptr<Channel> channel, const Channel::Files& files,
                                           std::shared_ptr<Link> link, Resumption resumption, const std::string& peer,
                                           KeeperLine* keeper) {
  CarriageTerms terms{channel->side(), static_cast<uint32_t>(resumption.grace_ns / 1'000'000), resumption.token,
                      channel->sizes()};
  const bool kept = keeper != nullptr && resumption.supply != nullptr && peer.size() < terms.peer.size();
  std::ranges::copy(peer.substr(0, terms.peer.size() - 1), terms.peer.begin());
  Result<std::unique_ptr<Carriage>> carriage = kept ? Carriage::Begin(*keeper, terms, *channel, files) : Carriage::Unkept();
  if (!carriage.ok()) return carriage.status();
  return std::unique_ptr<Relay>(new Relay(std::move(channel), std::move(*carriage), std::move(link), std::move(resumption)));
}

}  // namespace tessera
