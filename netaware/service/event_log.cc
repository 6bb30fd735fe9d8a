#include "netaware/service/event_log.h"

#include <algorithm>
#include <utility>

#include "protocol/base/log.h"

namespace tessera {

struct EventLog::Listing {
  EventQuestion question;
  std::function<void(Result<EventPage>)> done;
  EventPage page;  // the newest first, until `done` is called
};

void EventLog::List(EventQuestion question, std::function<void(Result<EventPage>)> done) {
  ListPiece(std::make_shared<Listing>(std::move(question), std::move(done), EventPage{}));
}

void EventLog::ListPiece(const std::shared_ptr<Listing>& listing) {
  writer_.Read([this, listing](const Store& store) {
    EventQuestion& question = listing->question;
    EventPage& page = listing->page;
    if (page.last == 0) page.last = store.last_record();
    const auto tell = [&] {
      std::reverse(page.records.begin(), page.records.end());
      listing->done(std::move(page));
    };
    const Result<std::vector<StoreRecord>> records = store.RecordsBefore(question.before, kPiece);
    if (!records.ok()) return listing->done(records.status());
    // The clock may have been set back: the search ends when all records of a piece are too old, and not at the first one.
    bool all_old = true;
    for (auto record = records.value().rbegin(); record != records.value().rend(); ++record) {
      question.before = record->number;
      if (record->time_ms < question.since_ms) continue;
      all_old = false;
      const Result<AuditRecord> read = ReadAudit(*record);
      if (!read.ok() || record->time_ms >= question.until_ms || !question.sees(read.value())) continue;
      if (page.records.size() == question.most) {
        page.more = true;
        return tell();
      }
      page.records.push_back(read.value());
    }
    if (records.value().size() < kPiece || all_old || !question.goes_on()) return tell();
    ListPiece(listing);
  });
}

void EventLog::Watch(uint64_t after, std::weak_ptr<EventWatcher> watcher) {
  writer_.Read([this, after, watcher = std::move(watcher)](const Store& store) {
    const std::shared_ptr<EventWatcher> there = watcher.lock();
    if (there == nullptr || !there->Watches()) return;
    const Result<std::vector<StoreRecord>> records = store.RecordsAfter(after, kPiece);
    if (!records.ok()) {
      LogError("records cannot be read: {}", records.status().message());
      return there->Failed(records.status());
    }
    for (const StoreRecord& record : records.value()) {
      if (const Result<AuditRecord> read = ReadAudit(record); read.ok()) there->Take(read.value());
    }
    // Later records come by Stored(), in this thread.
    if (records.value().size() < kPiece) return watchers_.push_back(watcher);
    there->ThereIsMore(records.value().back().number);
  });
}

void EventLog::Stored(uint64_t first, std::vector<StoreRecord> records) {
  std::erase_if(watchers_, [](const auto& each) {
    const std::shared_ptr<EventWatcher> watcher = each.lock();
    return watcher == nullptr || !watcher->Watches();
  });
  if (watchers_.empty()) return;
  if (records.size() > 1 && records.size() * watchers_.size() > kToldAtOnceMax) {
    for (const auto& each : std::exchange(watchers_, {})) {
      if (const std::shared_ptr<EventWatcher> watcher = each.lock()) watcher->ThereIsMore(first - 1);
    }
    return;
  }
  for (StoreRecord& record : records) {
    record.number = first++;
    const Result<AuditRecord> read = ReadAudit(record);
    if (!read.ok()) continue;
    for (const auto& each : watchers_) {
      if (const std::shared_ptr<EventWatcher> watcher = each.lock()) watcher->Take(read.value());
    }
  }
}

}  // namespace tessera
