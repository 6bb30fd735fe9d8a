#include "protocol/wire/server_query.h"

#include <algorithm>

#include "protocol/wire/control_message.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {
namespace {

constexpr size_t kValueBytes = 4 + 8;
constexpr size_t kUseBytes = 4 + 4 + 8;
constexpr size_t kListBytesMin = 4;

}  // namespace

void ServerQuery::Encode(Encoder& out) const {
  PutKind(out, ControlKind::kServerQuery);
  out.Pod(wire_version);
  out.Pod(spec_hash);
  out.Pod(readings);
}

Result<ServerQuery> ServerQuery::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kServerQuery);
  ServerQuery query;
  in.Pod(&query.wire_version);
  in.Pod(&query.spec_hash);
  if (in.ok() && query.wire_version != kWireVersion) return query;
  in.Pod(&query.readings);
  if (!in.AtEnd()) return MalformedControl("query");
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
  out.Bytes(snapshot);
  out.Pod(static_cast<uint32_t>(readings.size()));
  for (const std::vector<Value>& values : readings) {
    out.Pod(static_cast<uint32_t>(values.size()));
    for (const Value& value : values) {
      out.Pod(value.reading);
      out.Pod(value.value);
    }
  }
  const size_t use_count = std::min(uses.size(), kUsesMax);
  out.Pod(static_cast<uint32_t>(use_count));
  for (size_t i = 0; i < use_count; ++i) {
    out.Pod(uses[i].pid);
    out.Pod(uses[i].device);
    out.Pod(uses[i].used_bytes);
  }
}

Result<ServerReport> ServerReport::Decode(std::span<const std::byte> message) {
  Decoder in = OpenControl(message, ControlKind::kServerReport);
  ServerReport report;
  in.Pod(&report.wire_version);
  in.Pod(&report.spec_hash);
  if (in.ok() && report.wire_version != kWireVersion) return report;
  report.server = in.String(kNameBytesMax);
  report.driver = in.String(kSentenceBytesMax);
  report.driver_release = in.String(kNameBytesMax);
  in.Pod(&report.sessions);
  in.Pod(&report.sessions_max);
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
  report.uses.resize(in.CountOf(kUsesMax, kUseBytes));
  for (Use& use : report.uses) {
    in.Pod(&use.pid);
    in.Pod(&use.device);
    in.Pod(&use.used_bytes);
  }
  if (!in.AtEnd()) return MalformedControl("report");
  return report;
}

}  // namespace tessera
