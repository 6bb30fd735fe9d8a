#include "server/daemon/readings/monitor_request.h"

#include <algorithm>
#include <utility>

#include "protocol/wire/decoder.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {

ServerReport::Use* MonitorRequest::AddUse(const Session& session, uint32_t device, uint64_t used_bytes, ServerReport* report) {
  if (session.shown != 0) {
    ServerReport::Use& use = report->uses.emplace_back();
    use.pid = session.client_pid;
    use.device = device;
    use.used_bytes = used_bytes;
    use.session = session.session;
    return &use;
  }
  auto sum = std::ranges::find(report->others, device, &ServerReport::Others::device);
  if (sum == report->others.end()) sum = report->others.insert(sum, {device, 0, 0});
  ++sum->sessions;
  if (used_bytes != ServerReport::Use::kUnknown) sum->used_bytes += used_bytes;
  return nullptr;
}

void MonitorRequest::OverlayMemory(ServerReport* report) const {
  for (size_t i = 0; i < std::min(memory.size(), report->readings.size()); ++i) {
    if (memory[i].limit_bytes == 0) continue;
    for (ServerReport::Value& value : report->readings[i]) {
      if (value.reading == Reading::kMemoryTotalBytes) value.value = std::min(value.value, memory[i].limit_bytes);
      if (value.reading == Reading::kMemoryUsedBytes) value.value = std::min(memory[i].held_bytes, memory[i].limit_bytes);
      if (value.reading == Reading::kMemoryReservedBytes) value.value = 0;
    }
  }
}

void MonitorRequest::Encode(Encoder& out) const {
  out.Pod(figures);
  Encoder encoded(kControlMessageBytesMax);
  query.Encode(encoded);
  out.Bytes(encoded.bytes());
  encoded.Clear();
  report.Encode(encoded);
  out.Bytes(encoded.bytes());
  const size_t count = std::min(sessions.size(), kSessionsMax);
  out.Pod(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) out.Pod(sessions[i]);
  out.Pod(devices);
  out.Pod(static_cast<uint32_t>(memory.size()));
  for (const Memory& one : memory) out.Pod(one);
}

Result<MonitorRequest> MonitorRequest::Decode(std::span<const std::byte> message) {
  Decoder in(message);
  MonitorRequest request;
  in.Pod(&request.figures);
  Result<ServerQuery> query = ServerQuery::Decode(in.Bytes(kControlMessageBytesMax));
  if (!query.ok()) return query.status();
  request.query = std::move(query).value();
  Result<ServerReport> report = ServerReport::Decode(in.Bytes(kControlMessageBytesMax));
  if (!report.ok()) return report.status();
  request.report = std::move(report).value();
  request.sessions.resize(in.CountOf(kSessionsMax, sizeof(Session)));
  for (Session& session : request.sessions) in.Pod(&session);
  in.Pod(&request.devices);
  request.memory.resize(in.CountOf(DeviceSnapshot::kDevicesMax, sizeof(Memory)));
  for (Memory& one : request.memory) in.Pod(&one);
  if (!in.AtEnd()) return Status(StatusCode::kProtocolViolation, "a malformed request to the monitor");
  return request;
}

}  // namespace tessera
