// What a placer remembers of what happened.
#include <utility>

#include "netaware/service/placer_core.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr const char* kLate = "late";

}  // namespace

void PlacerCore::Note(AuditRecord record, int64_t now_ms) {
  record.time_ms = now_ms;
  // Whoever asks again and again does not fill the store with that.
  if ((record.outcome == AuditRecord::kRefused || record.outcome == kLate) && !refusals_.IsNew(record)) return;
  AddNote(record);
}

void PlacerCore::AddNote(const AuditRecord& record) {
  if (notes_.Add(StoredAudit(record))) return;
  if (++notes_lost_ > 1) return;  // the others are counted
  LogError("not remembered, because the store does not keep up: {} {} {} {}", Printable(record.actor), record.action,
           Printable(record.object), record.outcome);
}

void PlacerCore::NoteAsked() {
  for (AuditRecord& record : std::exchange(asked_, {})) {
    // What was refused at once is counted with its likes, as its refusal is.
    const std::optional<GrantId> id = ParseGrant(record.object);
    const Grant* const grant = id ? book_.Find(*id) : nullptr;
    const bool fails = grant != nullptr && (grant->state == Grant::State::kRefused || grant->state == Grant::State::kLate);
    if (!fails || refusals_.IsNew(record)) AddNote(record);
  }
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
      record.outcome = kLate;
      break;
    default: record.action = "grant"; record.outcome = AuditRecord::kRefused;
  }
  if (const auto by = ended_by_.find(placed.ask.id); by != ended_by_.end() && !by->second.empty()) record.actor = by->second;
  Note(std::move(record), now_ms);
}

void PlacerCore::StoreNotes(int64_t now_ms) {
  NoteAsked();
  for (const AuditRecord& record : refusals_.Ended(now_ms)) AddNote(record);
  if (const size_t more = std::exchange(notes_lost_, 0); more > 1) LogError("{} records more are not remembered", more - 1);
  KeepAll({.records = notes_.Take(now_ms == INT64_MAX ? SIZE_MAX : kNotesOfSecond)}, std::nullopt);
}

void PlacerCore::NotesNotStored(std::vector<StoreRecord> records) {
  for (StoreRecord& record : records) {
    const Result<AuditRecord> read = ReadAudit(record);
    // What was not stored was not granted: that is noted when it is.
    if (!read.ok() || (read.value().action == "grant" && read.value().outcome == AuditRecord::kDone)) continue;
    (void)notes_.Add(std::move(record));
  }
}

}  // namespace tessera
