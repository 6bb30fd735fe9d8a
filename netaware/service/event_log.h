// What a placer remembers of what happened, for those who ask and those who watch.
//
//   EventLog log(writer);
//   log.List({.since_ms = day_ago, .until_ms = now_ms, .sees = ...}, [](Result<EventPage> page) { ... });
//   log.Watch(page.last, watcher);                 // Take() for each that is stored from now on, none twice, none left out
//
// Any thread asks. All is done in the store's thread, in small pieces between two writes, and answered there: an answer does
// not wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "netaware/service/audit_record.h"
#include "netaware/service/store_thread.h"

namespace tessera {

// Somebody who watches. In the store's thread.
class EventWatcher {
 public:
  virtual ~EventWatcher() = default;
  // False: nothing is read, looked at or told for it any more. It may live on for long: gRPC keeps a stream that has ended until
  // its client has read the end, and one client can leave thousands of them.
  virtual bool Watches() = 0;
  // Each once, by number.
  virtual void Take(const AuditRecord& record) = 0;
  // More is stored behind `number`: Watch() again when what was taken has gone out.
  virtual void ThereIsMore(uint64_t number) = 0;
  // The store cannot be read: nothing comes any more.
  virtual void Failed(const Status& why) = 0;
};

struct EventQuestion {
  int64_t since_ms = 0, until_ms = 0;  // from, and to before
  uint64_t before = UINT64_MAX;        // by number
  size_t most = 1'000;                 // the newest
  std::function<bool(const AuditRecord& record)> sees{};
  std::function<bool()> goes_on{};  // false: nobody wants the answer any more
};
struct EventPage {
  std::vector<AuditRecord> records{};  // by number
  bool more = false;                   // there are older ones, of before the first
  uint64_t last = 0;                   // the number of the last record there is, whoever sees it
};

class EventLog {
 public:
  static constexpr size_t kPiece = 500;
  // Records of one write times those who watch. Beyond it nobody is told: all read from the store, a piece at a time.
  static constexpr size_t kToldAtOnceMax = 1'000;

  // `writer` outlives it.
  explicit EventLog(StoreThread& writer) : writer_(writer) {}

  // `done` is called once, unless the store's thread has ended. Errors: the store's.
  void List(EventQuestion question, std::function<void(Result<EventPage>)> done);
  // `after`: by number; one that is not there yet is the last one. Until the pointer is gone.
  void Watch(uint64_t after, std::weak_ptr<EventWatcher> watcher);

  // These are stored, and the first has that number. In the store's thread.
  void Stored(uint64_t first, std::vector<StoreRecord> records);

 private:
  struct Listing;
  void ListPiece(const std::shared_ptr<Listing>& listing);

  StoreThread& writer_;
  std::vector<std::weak_ptr<EventWatcher>> watchers_;  // of the store's thread
};

}  // namespace tessera
