#include "protocol/link/resume_messages.h"

#include <sys/random.h>

#include "protocol/base/check.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

std::vector<std::byte> Copy(const Encoder& encoder) { return {encoder.bytes().begin(), encoder.bytes().end()}; }

Status Malformed() { return Status(StatusCode::kProtocolViolation, "the link brought a malformed message about going on"); }

}  // namespace

ResumeToken ResumeToken::Mint() {
  ResumeToken token;
  // Up to 256 bytes come whole once the kernel's generator is seeded (getrandom(2)).
  CHECK(getrandom(token.bytes.data(), token.bytes.size(), 0) == static_cast<ssize_t>(token.bytes.size()));
  return token;
}

bool ResumeToken::Equals(const ResumeToken& other) const {
  volatile unsigned different = 0;
  for (size_t i = 0; i < bytes.size(); ++i) different = different | std::to_integer<unsigned>(bytes[i] ^ other.bytes[i]);
  return different == 0;
}

std::vector<std::byte> ResumeOffer::Encode() const {
  Encoder out;
  out.Pod(token);
  out.Pod(grace_ms);
  return Copy(out);
}

Result<ResumeOffer> ResumeOffer::Decode(std::span<const std::byte> payload) {
  Decoder in(payload);
  ResumeOffer offer;
  in.Pod(&offer.token);
  in.Pod(&offer.grace_ms);
  if (!in.ok() || in.remaining() != 0 || offer.grace_ms > kGraceMsMax) return Malformed();
  return offer;
}

std::vector<std::byte> ResumeState::Encode() const {
  Encoder out;
  out.Pod(token);
  out.Pod(controls);
  out.Pod(transfers);
  out.Pod(static_cast<uint32_t>(rings.size()));
  for (const Ring& ring : rings) {
    out.Pod(ring.id);
    out.Pod(ring.received);
    out.Pod(ring.visible);
    out.Pod(ring.released);
  }
  return Copy(out);
}

Result<ResumeState> ResumeState::Decode(std::span<const std::byte> payload) {
  Decoder in(payload);
  ResumeState state;
  in.Pod(&state.token);
  in.Pod(&state.controls);
  in.Pod(&state.transfers);
  state.rings.resize(in.CountOf(kRingsMax, sizeof(uint32_t) + 3 * sizeof(uint64_t)));
  for (Ring& ring : state.rings) {
    in.Pod(&ring.id);
    in.Pod(&ring.received);
    in.Pod(&ring.visible);
    in.Pod(&ring.released);
    if (ring.released > ring.visible || ring.visible > ring.received) return Malformed();
  }
  if (!in.ok() || in.remaining() != 0) return Malformed();
  return state;
}

}  // namespace tessera
