// The stored events of a placer, for queries and watches.
//
//   EventLog log(writer);
//   log.List({.since_ms = day_ago, .until_ms = now_ms, .sees = ...}, [](Result<EventPage> page) { ... });
//   log.Watch(page.last, watcher);                 // Take() for each later record, none twice, none left out
//
// Any thread may call it. The store's thread does all the work in small pieces between two writes, and calls back: a callback
// does not wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "netaware/service/audit_record.h"
#include "netaware/service/store_thread.h"

namespace tessera {

// The receiver of a watch's events, called in the store's thread.
class EventWatcher {
 public:
  virtual ~EventWatcher() = default;
  // False: the watch has ended, and gets nothing more. It may live on for long: gRPC keeps a stream that has ended until its
  // client has read the end, and one client can leave thousands of them.
  virtual bool Watches() = 0;
  // Called once for each record, in order of numbers.
  virtual void Take(const AuditRecord& record) = 0;
  // More records are stored after `number`: call Watch() again when the taken records are sent.
  virtual void ThereIsMore(uint64_t number) = 0;
  // The store cannot be read; nothing more comes.
  virtual void Failed(const Status& why) = 0;
};

struct EventQuestion {
  int64_t since_ms = 0, until_ms = 0;  // from since_ms on, and before until_ms
  uint64_t before = UINT64_MAX;        // only records of smaller numbers
  size_t most = 1'000;                 // of these, the newest
  std::function<bool(const AuditRecord& record)> sees{};
  std::function<bool()> goes_on{};  // false: the answer is not wanted any more
};
struct EventPage {
  std::vector<AuditRecord> records{};  // by number
  bool more = false;                   // there are older ones than the first
  uint64_t last = 0;                   // the number of the newest record of all, seen or not
};

class EventLog {
 public:
  static constexpr size_t kPiece = 500;
  // The most records of one write, times watchers, that are passed on at once. Beyond it, all watchers read from the store, a
  // piece at a time.
  static constexpr size_t kToldAtOnceMax = 1'000;

  // `writer` outlives it.
  explicit EventLog(StoreThread& writer) : writer_(writer) {}

  // `done` is called once, unless the store's thread has ended. Errors: the store's.
  void List(EventQuestion question, std::function<void(Result<EventPage>)> done);
  // Sends the records after the number `after` to `watcher`, until the pointer expires. A number that does not exist yet counts
  // as the last one.
  void Watch(uint64_t after, std::weak_ptr<EventWatcher> watcher);

  // These records are stored, and `first` is the number of the first. In the store's thread.
  void Stored(uint64_t first, std::vector<StoreRecord> records);

 private:
  struct Listing;
  void ListPiece(const std::shared_ptr<Listing>& listing);

  StoreThread& writer_;
  std::vector<std::weak_ptr<EventWatcher>> watchers_;  // of the store's thread
};

}  // namespace tessera
