#include "netaware/service/audit_record.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "protocol/base/printable.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

constexpr uint8_t kAuditVersion = 1;
constexpr size_t kNameBytesMax = 256;
constexpr size_t kAuditTextBytesMax = 1'024;
constexpr size_t kServersMax = 8;

const std::string& OwnerOf(const AuditRecord& record) {
  if (!record.owner.empty()) return record.owner;
  return record.actor == AuditRecord::kPlacer && !record.holder.empty() ? record.holder : record.actor;
}

}  // namespace

bool AuditRecord::IsOfServer() const {
  constexpr std::string_view kActions[] = {"join", "leave", "cordon", "uncordon", "drain", "remove"};
  return holder.empty() && std::find(std::begin(kActions), std::end(kActions), action) != std::end(kActions);
}

bool AuditRecord::IsOf(std::string_view name) const {
  return object == name || holder == name || std::find(servers.begin(), servers.end(), name) != servers.end();
}

StoreRecord StoredAudit(const AuditRecord& record) {
  Encoder out;
  out.Pod(kAuditVersion);
  for (const std::string* text : {&record.actor, &record.action, &record.object, &record.outcome, &record.holder})
    out.String(Printable(*text, kNameBytesMax));
  const size_t servers = std::min(record.servers.size(), kServersMax);
  out.Pod(static_cast<uint32_t>(servers));
  for (size_t i = 0; i < servers; ++i) out.String(Printable(record.servers[i], kNameBytesMax));
  out.String(Printable(record.text, kAuditTextBytesMax));
  return {.time_ms = record.time_ms,
          .value = {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()},
          .owner = Printable(OwnerOf(record), kNameBytesMax)};
}

Result<AuditRecord> ReadAudit(const StoreRecord& record) {
  Decoder in(std::as_bytes(std::span(record.value)));
  AuditRecord read{.number = record.number, .time_ms = record.time_ms};
  if (in.Pod<uint8_t>() != kAuditVersion) in.Fail();
  for (std::string* text : {&read.actor, &read.action, &read.object, &read.outcome, &read.holder})
    *text = Printable(in.String(kNameBytesMax), kNameBytesMax);
  read.servers.resize(in.CountOf(kServersMax, sizeof(uint32_t)));
  for (std::string& server : read.servers) server = Printable(in.String(kNameBytesMax), kNameBytesMax);
  read.text = Printable(in.String(kAuditTextBytesMax), kAuditTextBytesMax);
  if (!in.AtEnd()) return Status(StatusCode::kProtocolViolation, "a record that was kept is damaged");
  return read;
}

}  // namespace tessera
