#include "protocol/node/node_line.h"

#include <string_view>

#include "protocol/wire/decoder.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

// First four bytes of every message, and what it is.
constexpr uint32_t kLineMagic = 0x45444f4e;
constexpr uint32_t kQuestion = 1, kAnswer = 2;

void Begin(Encoder& out, uint32_t word) {
  out.Pod(kLineMagic);
  out.Pod(word);
}

Decoder Open(std::span<const std::byte> message, uint32_t word) {
  Decoder in(message);
  const auto magic = in.Pod<uint32_t>();
  if (message.size() > kNodeMessageBytesMax || magic != kLineMagic || in.Pod<uint32_t>() != word) in.Fail();
  return in;
}

Status Malformed(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, "a malformed " + std::string(what) + " between tesserad and its node");
}

}  // namespace

void TicketQuestion::Encode(Encoder& out) const {
  Begin(out, kQuestion);
  out.Pod(id);
  out.String(holder);
  out.Bytes(ticket);
}

Result<TicketQuestion> TicketQuestion::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, kQuestion);
  TicketQuestion question;
  in.Pod(&question.id);
  question.holder = GetHolder(in);
  const std::span<const std::byte> ticket = in.Bytes(kHelloTicketBytesMax);
  question.ticket.assign(ticket.begin(), ticket.end());
  if (!in.AtEnd()) return Malformed("question about a ticket");
  return question;
}

void TicketAnswer::Encode(Encoder& out) const {
  Begin(out, kAnswer);
  out.Pod(id);
  out.Pod(static_cast<uint32_t>(code));
  // Texts for people are cut off rather than refused.
  out.String(std::string_view(sentence).substr(0, kNodeSentenceBytesMax));
  out.String(vgpus);
}

Result<TicketAnswer> TicketAnswer::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, kAnswer);
  TicketAnswer answer;
  in.Pod(&answer.id);
  const auto code = in.Pod<uint32_t>();
  if (code > static_cast<uint32_t>(kLastStatusCode)) in.Fail();
  if (in.ok()) answer.code = static_cast<StatusCode>(code);
  answer.sentence = in.String(kNodeSentenceBytesMax);
  answer.vgpus = in.String(kVgpuListBytesMax);
  if (!in.AtEnd() || (answer.code == StatusCode::kOk && answer.vgpus.empty())) return Malformed("answer about a ticket");
  return answer;
}

}  // namespace tessera
