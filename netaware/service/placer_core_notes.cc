// What a placer remembers of what happened.
#include <utility>

#include "netaware/service/placer_core.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"

namespace tessera {

void PlacerCore::Note(AuditRecord record, int64_t now_ms) {
  record.time_ms = now_ms;
  if (record.outcome == AuditRecord::kRefused) {
    // Whoever asks again and again does not fill the store with that.
    std::string same;
    for (const std::string* text : {&record.actor, &record.action, &record.object, &record.text}) same += *text + '\n';
    if (!refusals_.insert(std::move(same)).second) return;
  }
  if (notes_.size() >= kNotesMax) {
    LogError("not remembered, because the store does not keep up: {} {} {} {}", Printable(record.actor), record.action,
             Printable(record.object), record.outcome);
    return;
  }
  notes_.push_back(StoredAudit(record));
}

void PlacerCore::NoteEnd(const PlacedGrant& placed, const Grant& grant, int64_t now_ms) {
  if (!ends_noted_.insert(placed.ask.id).second) return;
  AuditRecord record{.actor = std::string(AuditRecord::kPlacer),
                     .object = GrantText(placed.ask.id),
                     .holder = placed.ask.holder,
                     .text = grant.reason};
  for (const PlacedPart& part : placed.parts) record.servers.push_back(part.server);
  switch (grant.state) {
    case Grant::State::kReleased: record.action = "release"; break;
    case Grant::State::kRevoked: record.action = "revoke"; break;
    case Grant::State::kLate:
      record.action = "grant";
      record.outcome = "late";
      break;
    default: record.action = "grant"; record.outcome = AuditRecord::kRefused;
  }
  if (const auto by = ended_by_.find(placed.ask.id); by != ended_by_.end() && !by->second.empty()) record.actor = by->second;
  Note(std::move(record), now_ms);
}

void PlacerCore::Keep(StoreChange change, std::optional<GrantId> grant) {
  refusals_.clear();
  outside_.Keep({.changes = {std::move(change)}, .records = std::exchange(notes_, {})}, grant);
}

void PlacerCore::StoreNotes() {
  refusals_.clear();
  if (!notes_.empty()) outside_.Keep({.records = std::exchange(notes_, {})}, std::nullopt);
}

void PlacerCore::NotesNotStored(std::vector<StoreRecord> records) {
  for (StoreRecord& record : records) {
    const Result<AuditRecord> read = ReadAudit(record);
    // What was not stored was not granted: that is noted when it is.
    if (!read.ok() || (read.value().action == "grant" && read.value().outcome == AuditRecord::kDone)) continue;
    if (notes_.size() < kNotesMax) notes_.push_back(std::move(record));
  }
}

}  // namespace tessera
