// What a placer must not forget: keys and values, of which a change is durable before anybody hears of it.
//
//   std::vector<StoreResult> results = store.Commit({{
//       .compares = {{"gpus/GPU-1", 41}}, .changes = {{"gpus/GPU-1", taken}, {"grants/18", bytes}}}});
//
// A revision counts the transactions that were carried out. Those that wait are given together: each is carried out or refused by
// itself, and one write to the disk is all that they wait for. Whoever has a store is alone in having it: its epoch is larger
// than that of each before.
//
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

struct StoreEntry {
  std::string key{};
  std::string value{};
  uint64_t revision = 0;  // of the transaction that wrote it

  friend bool operator==(const StoreEntry&, const StoreEntry&) = default;
};

// What has to be so that a transaction is carried out.
struct StoreCompare {
  std::string key{};
  uint64_t revision = 0;  // that it has; 0: there is none of that key
};

struct StoreChange {
  std::string key{};
  std::optional<std::string> value{};  // nothing: it is removed, and need not have been there

  friend bool operator==(const StoreChange&, const StoreChange&) = default;
};

// A line of the record of what happened: it is never changed, and goes when it is old.
struct StoreRecord {
  uint64_t number = 0;  // the store's own: larger than that of each before; of one that is to be added: 0
  int64_t time_ms = 0;  // since 1970
  std::string value{};

  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

struct StoreTransaction {
  std::vector<StoreCompare> compares{};
  std::vector<StoreChange> changes{};  // each of another key; 1 at least, or a record
  std::vector<StoreRecord> records{};  // of what it does: added with it, or not at all

  bool empty() const { return changes.empty() && records.empty(); }
};

// What became of a transaction.
struct StoreResult {
  enum class Outcome {
    kDone,     // and durable
    kStale,    // a compare was not so: the reason names its key
    kInvalid,  // a key, value or record is too long, a key is named twice, or nothing changes
    kFailed,   // the disk is full or broken; nothing has changed, of any of those that were given together
  };
  Outcome outcome = Outcome::kFailed;
  uint64_t revision = 0;  // of kDone
  uint64_t record = 0;    // of kDone: the number of its first record, which the others follow; 0: it has none
  std::string reason{};   // else
};

struct StoreEvent {
  uint64_t revision = 0;
  StoreChange change{};

  friend bool operator==(const StoreEvent&, const StoreEvent&) = default;
};

class Store {
 public:
  static constexpr size_t kKeyBytesMax = 512;  // and 1 at least
  static constexpr size_t kValueBytesMax = 64 * 1024;
  static constexpr size_t kEventsKept = 10'000;  // that Since() tells
  static constexpr size_t kRecordBytesMax = 4 * 1024;
  static constexpr size_t kRecordsGone = 64;  // that a commit with records removes besides: no write is long

  // Which records are kept. Those that are older than the newest by more than `age_ms`, and those before the newest `most`, go
  // when others come, the oldest first.
  struct RecordBounds {
    int64_t age_ms = int64_t{90} * 86'400'000;
    uint64_t most = 1'000'000;  // 1 at least
  };

  virtual ~Store() = default;

  virtual std::optional<StoreEntry> Get(std::string_view key) const = 0;
  // All whose keys begin so, by key.
  virtual std::vector<StoreEntry> Range(std::string_view prefix) const = 0;
  // A result for each, in order; later ones see what earlier ones have changed.
  virtual std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) = 0;
  // What has changed after `revision`, in order. kNotFound: more than is kept, so that all is to be read anew.
  virtual Result<std::vector<StoreEvent>> Since(uint64_t revision) const = 0;

  // The first `most` records behind that number, or the last `most` before it, by number.
  virtual Result<std::vector<StoreRecord>> RecordsAfter(uint64_t number, size_t most) const = 0;
  virtual Result<std::vector<StoreRecord>> RecordsBefore(uint64_t number, size_t most) const = 0;
  virtual uint64_t last_record() const = 0;  // its number, or one below all that come; also when it has gone
  virtual void SetRecordBounds(const RecordBounds& bounds) = 0;

  virtual uint64_t revision() const = 0;  // of the last transaction; 0: there was none
  virtual uint64_t epoch() const = 0;     // 1 or more
};

}  // namespace tessera
