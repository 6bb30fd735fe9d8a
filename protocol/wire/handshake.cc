#include "protocol/wire/handshake.h"

#include <cstdio>

#include "protocol/wire/decoder.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr size_t kSegmentOfferBytes = 4 + 4 + 8 + 8 + 8;
constexpr size_t kStringBytesMin = 4;

void PutSizes(Encoder& out, const ChannelSizes& sizes) {
  out.Pod(sizes.command_bytes);
  out.Pod(sizes.reply_bytes);
  out.Pod(sizes.answer_bytes);
  out.Pod(sizes.transfer_bytes);
  out.Pod(sizes.staging_bytes);
}

void GetSizes(Decoder& in, ChannelSizes* sizes) {
  in.Pod(&sizes->command_bytes);
  in.Pod(&sizes->reply_bytes);
  in.Pod(&sizes->answer_bytes);
  in.Pod(&sizes->transfer_bytes);
  in.Pod(&sizes->staging_bytes);
}

void PutOffer(Encoder& out, const SegmentOffer& offer) {
  out.Pod(offer.id);
  out.Pod(offer.kind);
  out.Pod(offer.size_bytes);
  out.Pod(offer.address);
  out.Pod(offer.file_offset);
}

void GetOffer(Decoder& in, SegmentOffer* offer) {
  in.Pod(&offer->id);
  in.Pod(&offer->kind);
  in.Pod(&offer->size_bytes);
  in.Pod(&offer->address);
  in.Pod(&offer->file_offset);
  if (offer->id == 0 || offer->size_bytes == 0 || offer->kind == SegmentKind::kNone || offer->kind > SegmentKind::kManaged) {
    in.Fail();
  }
}

void PutCode(Encoder& out, StatusCode code) { out.Pod(static_cast<uint32_t>(code)); }

StatusCode GetCode(Decoder& in) {
  const auto code = in.Pod<uint32_t>();
  if (code > static_cast<uint32_t>(kLastStatusCode)) in.Fail();
  return in.ok() ? static_cast<StatusCode>(code) : StatusCode::kInternal;
}

// Sentences are for people, so a long one is cut off and not refused.
std::string_view Short(const std::string& sentence) { return std::string_view(sentence).substr(0, kSentenceBytesMax); }

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

void SegmentOffer::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kSegmentOffer);
  PutOffer(out, *this);
}

Result<SegmentOffer> SegmentOffer::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kSegmentOffer);
  SegmentOffer offer;
  GetOffer(in, &offer);
  if (!in.AtEnd()) return MalformedControl("segment offer");
  return offer;
}

void SegmentClose::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kSegmentClose);
  out.Pod(id);
}

Result<SegmentClose> SegmentClose::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kSegmentClose);
  SegmentClose close;
  in.Pod(&close.id);
  if (!in.AtEnd() || close.id == 0) return MalformedControl("segment close");
  return close;
}

void Goodbye::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kGoodbye);
  PutCode(out, code);
  out.String(Short(sentence));
}

Result<Goodbye> Goodbye::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kGoodbye);
  Goodbye goodbye;
  goodbye.code = GetCode(in);
  goodbye.sentence = GetText(in, kSentenceBytesMax);
  if (!in.AtEnd()) return MalformedControl("goodbye");
  return goodbye;
}

void ClientHello::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kClientHello);
  out.Pod(wire_version);
  out.Pod(spec_hash);
  out.Pod(pid);
  out.Pod(session_index);
  out.Pod(window_rows);
  out.Pod(mirrored);
  PutSizes(out, sizes);
  out.String(program);
  out.String(devices);
  out.Pod(static_cast<uint32_t>(environment.size()));
  for (const std::string& entry : environment) out.String(entry);
  out.String(vgpus);
  out.Bytes(ticket);
  out.String(holder);
  out.String(user);
  out.String(host);
  out.Pod(wait_ms);
}

Result<ClientHello> ClientHello::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kClientHello);
  ClientHello hello;
  in.Pod(&hello.wire_version);
  in.Pod(&hello.spec_hash);
  if (in.ok() && hello.wire_version != kWireVersion) return hello;
  in.Pod(&hello.pid);
  in.Pod(&hello.session_index);
  in.Pod(&hello.window_rows);
  in.Pod(&hello.mirrored);
  GetSizes(in, &hello.sizes);
  hello.program = GetText(in, kNameBytesMax);
  hello.devices = in.String(kDeviceListBytesMax);
  const size_t entries = in.CountOf(kEnvironmentEntriesMax, kStringBytesMin);
  size_t environment_bytes = 0;
  for (size_t i = 0; i < entries && in.ok(); ++i) {
    hello.environment.emplace_back(in.String(kEnvironmentEntryBytesMax));
    const std::string& entry = hello.environment.back();
    environment_bytes += entry.size();
    const size_t equals = entry.find('=');
    const bool has_nul = entry.find('\0') != std::string::npos;
    if (environment_bytes > kEnvironmentBytesMax || equals == 0 || equals == std::string::npos || has_nul) in.Fail();
  }
  hello.vgpus = in.String(kVgpuListBytesMax);
  const std::span<const std::byte> ticket = in.Bytes(kHelloTicketBytesMax);
  hello.ticket.assign(ticket.begin(), ticket.end());
  hello.holder = GetHolder(in);
  hello.user = GetText(in, kUserBytesMax);
  hello.host = GetText(in, kHostBytesMax);
  in.Pod(&hello.wait_ms);
  if (!in.AtEnd()) return MalformedControl("hello");
  return hello;
}

void ServerWelcome::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kServerWelcome);
  out.Pod(wire_version);
  out.Pod(spec_hash);
  out.Pod(session_id);
  out.Pod(session_index);
  out.Pod(window_row);
  out.Pod(mirrored);
  PutSizes(out, sizes);
  out.String(server);
  out.Pod(static_cast<uint32_t>(segments.size()));
  for (const SegmentOffer& segment : segments) PutOffer(out, segment);
  out.Bytes(snapshot);
}

Result<ServerWelcome> ServerWelcome::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kServerWelcome);
  ServerWelcome welcome;
  in.Pod(&welcome.wire_version);
  in.Pod(&welcome.spec_hash);
  if (in.ok() && welcome.wire_version != kWireVersion) return welcome;
  in.Pod(&welcome.session_id);
  in.Pod(&welcome.session_index);
  in.Pod(&welcome.window_row);
  in.Pod(&welcome.mirrored);
  GetSizes(in, &welcome.sizes);
  welcome.server = GetText(in, kNameBytesMax);
  const size_t segments = in.CountOf(kWelcomeSegmentsMax, kSegmentOfferBytes);
  for (size_t i = 0; i < segments && in.ok(); ++i) GetOffer(in, &welcome.segments.emplace_back());
  const std::span<const std::byte> snapshot = in.Bytes(kSnapshotBytesMax);
  welcome.snapshot.assign(snapshot.begin(), snapshot.end());
  if (!in.AtEnd()) return MalformedControl("welcome");
  return welcome;
}

void ServerRefusal::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kServerRefusal);
  PutCode(out, code);
  out.String(Short(sentence));
}

Result<ServerRefusal> ServerRefusal::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kServerRefusal);
  ServerRefusal refusal;
  refusal.code = GetCode(in);
  refusal.sentence = GetText(in, kSentenceBytesMax);
  if (!in.AtEnd() || refusal.code == StatusCode::kOk) return MalformedControl("refusal");
  return refusal;
}

Status CheckPeerVersion(std::string_view peer, uint32_t peer_version, uint64_t peer_hash, uint64_t own_hash) {
  if (peer_version == kWireVersion && peer_hash == own_hash) return Status::Ok();
  const std::string name(peer);
  if (peer_version != kWireVersion) {
    return Status(StatusCode::kVersionMismatch, "the " + name + " speaks wire version " + std::to_string(peer_version) +
                                                    ", this side speaks " + std::to_string(kWireVersion) +
                                                    ": install the same release of tessera on both sides");
  }
  return Status(StatusCode::kVersionMismatch, "the " + name + " was built from API spec " + Hex(peer_hash) + ", this side from " +
                                                  Hex(own_hash) + ", both with wire version " + std::to_string(kWireVersion) +
                                                  ": install the same release of tessera on both sides");
}

}  // namespace tessera
