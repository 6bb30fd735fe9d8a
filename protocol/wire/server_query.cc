#include "protocol/wire/server_query.h"

#include <algorithm>

#include "protocol/wire/control_message.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr size_t kValueBytes = 4 + 8;
constexpr size_t kFieldBytes = 4 + 4;
constexpr size_t kFieldValueBytes = kFieldBytes + 4 + 4 + 3 * 8;
constexpr size_t kUseBytes = 4 + 4 + 8 + 8 + 4 * 4 + 8;
constexpr size_t kOthersBytes = 4 + 4 + 8;
constexpr size_t kSessionBytesMin = 8 + 4 + 8 + 5 * 4;
constexpr size_t kListBytesMin = 4;
constexpr size_t kTextBytesMin = 4 + 4;

void PutField(Encoder& out, const ServerQuery::Field& field) {
  out.Pod(field.field);
  out.Pod(field.scope);
}

void GetField(Decoder& in, ServerQuery::Field* field) {
  in.Pod(&field->field);
  in.Pod(&field->scope);
}

void PutUse(Encoder& out, const ServerReport::Use& use) {
  out.Pod(use.pid);
  out.Pod(use.device);
  out.Pod(use.used_bytes);
  out.Pod(use.load.time_us);
  out.Pod(use.load.sm_percent);
  out.Pod(use.load.memory_percent);
  out.Pod(use.load.encoder_percent);
  out.Pod(use.load.decoder_percent);
  out.Pod(use.session);
}

void GetUse(Decoder& in, ServerReport::Use* use) {
  in.Pod(&use->pid);
  in.Pod(&use->device);
  in.Pod(&use->used_bytes);
  in.Pod(&use->load.time_us);
  in.Pod(&use->load.sm_percent);
  in.Pod(&use->load.memory_percent);
  in.Pod(&use->load.encoder_percent);
  in.Pod(&use->load.decoder_percent);
  in.Pod(&use->session);
}

// The number of sessions that fit into a report with `room` bytes left.
size_t SessionsThatFit(const std::vector<ServerReport::Session>& sessions, size_t room) {
  size_t texts = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const ServerReport::Session& each = sessions[i];
    texts += each.program.size() + each.vgpus.size() + each.user.size() + each.host.size() + each.name.size();
    const bool fits = texts <= ServerReport::kSessionTextsMax && texts + (i + 1) * kSessionBytesMin <= room;
    if (i == ServerReport::kSessionsMax || !fits) return i;
  }
  return sessions.size();
}

void PutSession(Encoder& out, const ServerReport::Session& session) {
  out.Pod(session.session);
  out.Pod(session.pid);
  out.Pod(session.age_ms);
  for (const std::string* text : {&session.program, &session.vgpus, &session.user, &session.host, &session.name}) {
    out.String(*text);
  }
}

void GetSession(Decoder& in, ServerReport::Session* session) {
  in.Pod(&session->session);
  in.Pod(&session->pid);
  in.Pod(&session->age_ms);
  session->program = GetText(in, kNameBytesMax);
  session->vgpus = GetText(in, kVgpuListBytesMax);
  session->user = GetText(in, kUserBytesMax);
  session->host = GetText(in, kHostBytesMax);
  session->name = GetHolder(in);
}

}  // namespace

void ServerReport::Holder::Put(Encoder& out) const {
  out.String(name);
  out.Pod(sessions);
  out.Pod(starts_waiting);
  out.Pod(shared_objects);
  out.Pod(descriptors);
  out.Pod(host_memory_bytes);
}

void ServerReport::Holder::Get(Decoder& in) {
  name = GetHolder(in);
  in.Pod(&sessions);
  in.Pod(&starts_waiting);
  in.Pod(&shared_objects);
  in.Pod(&descriptors);
  in.Pod(&host_memory_bytes);
}

void ServerReport::Sharing::Put(Encoder& out) const {
  out.Pod(device);
  out.String(policy);
  out.String(mode);
  out.Pod(unreported);
  out.Pod(unreported_memory);
}

void ServerReport::Sharing::Get(Decoder& in) {
  in.Pod(&device);
  policy = GetText(in, kNameBytesMax);
  mode = GetText(in, kNameBytesMax);
  in.Pod(&unreported);
  in.Pod(&unreported_memory);
}

void ServerReport::Vgpu::Put(Encoder& out) const {
  out.String(name);
  out.Pod(device);
  out.Pod(request);
  out.Pod(limit);
  out.String(priority);
  out.Pod(sessions);
  out.Pod(waits);
  out.Pod(got_1s);
  out.Pod(got_10s);
  out.Pod(waited_ms);
  out.Pod(queued_before_ms);
  out.Pod(queued_before_runs);
  out.Pod(memory_limit_bytes);
  out.Pod(memory_held_bytes);
  for (const uint64_t bytes : memory_held_by_kind) out.Pod(bytes);
}

void ServerReport::Vgpu::Get(Decoder& in) {
  name = GetText(in, kNameBytesMax);
  in.Pod(&device);
  in.Pod(&request);
  in.Pod(&limit);
  priority = GetText(in, kNameBytesMax);
  in.Pod(&sessions);
  in.Pod(&waits);
  in.Pod(&got_1s);
  in.Pod(&got_10s);
  in.Pod(&waited_ms);
  in.Pod(&queued_before_ms);
  in.Pod(&queued_before_runs);
  in.Pod(&memory_limit_bytes);
  in.Pod(&memory_held_bytes);
  for (uint64_t& bytes : memory_held_by_kind) in.Pod(&bytes);
  // People are shown these numbers, so a bad one must not pass.
  for (const double share : {request, limit, got_1s, got_10s}) {
    if (!(share >= 0 && share <= kShareMax)) in.Fail();
  }
}

void ServerQuery::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kServerQuery);
  out.Pod(wire_version);
  out.Pod(spec_hash);
  out.Pod(ask);
  out.Pod(device);
  out.Pod(static_cast<uint32_t>(fields.size()));
  for (const Field& field : fields) PutField(out, field);
  out.String(vgpus);
  out.Bytes(ticket);
  out.String(holder);
  out.Pod(session);
  out.Pod(grace_ms);
  out.Pod(wait_ms);
}

Result<ServerQuery> ServerQuery::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kServerQuery);
  ServerQuery query;
  in.Pod(&query.wire_version);
  in.Pod(&query.spec_hash);
  if (in.ok() && query.wire_version != kWireVersion) return query;
  in.Pod(&query.ask);
  in.Pod(&query.device);
  query.fields.resize(in.CountOf(kFieldsMax, kFieldBytes));
  for (Field& field : query.fields) GetField(in, &field);
  query.vgpus = in.String(kVgpuListBytesMax);
  const std::span<const std::byte> ticket = in.Bytes(kHelloTicketBytesMax);
  query.ticket.assign(ticket.begin(), ticket.end());
  query.holder = GetHolder(in);
  in.Pod(&query.session);
  in.Pod(&query.grace_ms);
  in.Pod(&query.wait_ms);
  if (!in.AtEnd() || query.ask > Ask::kEnd || query.grace_ms > kGraceMsMax) return MalformedControl("query");
  return query;
}

void ServerReport::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kServerReport);
  out.Pod(wire_version);
  out.Pod(spec_hash);
  out.String(server);
  out.String(driver);
  out.String(driver_release);
  out.Pod(sessions);
  out.Pod(sessions_max);
  out.Pod(needs_vgpu);
  out.Bytes(snapshot);
  out.Pod(static_cast<uint32_t>(readings.size()));
  for (const std::vector<Value>& values : readings) {
    out.Pod(static_cast<uint32_t>(values.size()));
    for (const Value& value : values) {
      out.Pod(value.reading);
      out.Pod(value.value);
    }
  }
  out.Pod(static_cast<uint32_t>(texts.size()));
  for (const Text& text : texts) {
    out.Pod(text.reading);
    out.String(text.text);
  }
  out.Pod(static_cast<uint32_t>(fields.size()));
  for (const FieldValue& value : fields) {
    PutField(out, value.field);
    out.Pod(value.result);
    out.Pod(value.type);
    out.Pod(value.value);
    out.Pod(value.time_us);
    out.Pod(value.latency_us);
  }
  // Uses and sessions get the room that everything else leaves.
  Encoder rest(kControlMessageBytesMax);
  PutRest(rest);
  const size_t taken = std::min(out.size() + rest.size() + 3 * sizeof(uint32_t), kControlMessageBytesMax);
  const size_t room = kControlMessageBytesMax - taken;
  const size_t use_count = std::min({uses.size(), kUsesMax, room / 2 / kUseBytes});
  out.Pod(static_cast<uint32_t>(use_count));
  for (size_t i = 0; i < use_count; ++i) PutUse(out, uses[i]);
  const size_t session_count = SessionsThatFit(session_list, room - use_count * kUseBytes);
  out.Pod(static_cast<uint32_t>(session_count));
  for (size_t i = 0; i < session_count; ++i) PutSession(out, session_list[i]);
  out.Pod(static_cast<uint32_t>(other_sessions + (session_list.size() - session_count)));
  PutRest(out);
}

void ServerReport::PutRest(Encoder& out) const {
  const size_t others_count = std::min(others.size(), DeviceSnapshot::kDevicesMax);
  out.Pod(static_cast<uint32_t>(others_count));
  for (size_t i = 0; i < others_count; ++i) {
    out.Pod(others[i].device);
    out.Pod(others[i].sessions);
    out.Pod(others[i].used_bytes);
  }
  const size_t holder_count = std::min(holders.size(), kHoldersMax);
  out.Pod(static_cast<uint32_t>(holder_count));
  for (size_t i = 0; i < holder_count; ++i) holders[i].Put(out);
  const size_t sharing_count = std::min(sharings.size(), kSharingsMax);
  out.Pod(static_cast<uint32_t>(sharing_count));
  for (size_t i = 0; i < sharing_count; ++i) sharings[i].Put(out);
  const size_t vgpu_count = std::min(vgpus.size(), kVgpusMax);
  out.Pod(static_cast<uint32_t>(vgpu_count));
  for (size_t i = 0; i < vgpu_count; ++i) vgpus[i].Put(out);
  const size_t context_count = std::min(context_bytes.size(), DeviceSnapshot::kDevicesMax);
  out.Pod(static_cast<uint32_t>(context_count));
  for (size_t i = 0; i < context_count; ++i) out.Pod(context_bytes[i]);
  out.String(audit);
  out.String(std::string_view(vgpu_problem).substr(0, kSentenceBytesMax));
  out.String(std::string_view(no_place).substr(0, kSentenceBytesMax));
  out.Pod(ending);
}

Result<ServerReport> ServerReport::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kServerReport);
  ServerReport report;
  in.Pod(&report.wire_version);
  in.Pod(&report.spec_hash);
  if (in.ok() && report.wire_version != kWireVersion) return report;
  report.server = GetText(in, kNameBytesMax);
  report.driver = GetText(in, kSentenceBytesMax);
  report.driver_release = GetText(in, kNameBytesMax);
  in.Pod(&report.sessions);
  in.Pod(&report.sessions_max);
  in.Pod(&report.needs_vgpu);
  const std::span<const std::byte> snapshot = in.Bytes(kSnapshotBytesMax);
  report.snapshot.assign(snapshot.begin(), snapshot.end());
  report.readings.resize(in.CountOf(DeviceSnapshot::kDevicesMax, kListBytesMin));
  for (std::vector<Value>& values : report.readings) {
    values.resize(in.CountOf(kReadingsMax, kValueBytes));
    for (Value& value : values) {
      in.Pod(&value.reading);
      in.Pod(&value.value);
    }
  }
  report.texts.resize(in.CountOf(kTextsMax, kTextBytesMin));
  for (Text& text : report.texts) {
    in.Pod(&text.reading);
    text.text = GetText(in, kNameBytesMax);
  }
  report.fields.resize(in.CountOf(ServerQuery::kFieldsMax, kFieldValueBytes));
  for (FieldValue& value : report.fields) {
    GetField(in, &value.field);
    in.Pod(&value.result);
    in.Pod(&value.type);
    in.Pod(&value.value);
    in.Pod(&value.time_us);
    in.Pod(&value.latency_us);
  }
  report.uses.resize(in.CountOf(kUsesMax, kUseBytes));
  for (Use& use : report.uses) GetUse(in, &use);
  report.session_list.resize(in.CountOf(kSessionsMax, kSessionBytesMin));
  for (Session& session : report.session_list) GetSession(in, &session);
  in.Pod(&report.other_sessions);
  report.others.resize(in.CountOf(DeviceSnapshot::kDevicesMax, kOthersBytes));
  for (Others& others : report.others) {
    in.Pod(&others.device);
    in.Pod(&others.sessions);
    in.Pod(&others.used_bytes);
  }
  report.holders.resize(in.CountOf(kHoldersMax, Holder::kBytesMin));
  for (Holder& holder : report.holders) holder.Get(in);
  report.sharings.resize(in.CountOf(kSharingsMax, Sharing::kBytesMin));
  for (Sharing& sharing : report.sharings) sharing.Get(in);
  report.vgpus.resize(in.CountOf(kVgpusMax, Vgpu::kBytesMin));
  for (Vgpu& vgpu : report.vgpus) vgpu.Get(in);
  report.context_bytes.resize(in.CountOf(DeviceSnapshot::kDevicesMax, sizeof(uint64_t)));
  for (uint64_t& bytes : report.context_bytes) in.Pod(&bytes);
  report.audit = GetText(in, kNameBytesMax);
  report.vgpu_problem = GetText(in, kSentenceBytesMax);
  report.no_place = GetText(in, kSentenceBytesMax);
  in.Pod(&report.ending);
  if (!in.AtEnd()) return MalformedControl("report");
  return report;
}

}  // namespace tessera
