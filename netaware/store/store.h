// The durable keys and values of a placer. A change is durable before its result is returned.
//
//   std::vector<StoreResult> results = store.Commit({{
//       .compares = {{"gpus/GPU-1", 41}}, .changes = {{"gpus/GPU-1", taken}, {"grants/18", bytes}}}});
//
// A revision counts the transactions that were carried out. Commit() takes several transactions at once. Each is carried out or
// refused by itself, and one write to the disk serves all. A store has one user at a time, and its epoch is larger than any
// before.
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
  uint64_t revision = 0;  // the revision of the transaction that wrote it

  friend bool operator==(const StoreEntry&, const StoreEntry&) = default;
};

// A condition of a transaction.
struct StoreCompare {
  std::string key{};
  uint64_t revision = 0;  // the key's revision; 0: the key does not exist
};

struct StoreChange {
  std::string key{};
  std::optional<std::string> value{};  // nullopt: removes the key, which need not exist

  friend bool operator==(const StoreChange&, const StoreChange&) = default;
};

// A record of an event. It is never changed, and goes when it is old.
struct StoreRecord {
  uint64_t number = 0;  // given by the store, larger than any before; 0 in a record to add
  int64_t time_ms = 0;  // since 1970
  std::string value{};
  std::string owner{};  // the owner in whose part of the store it counts

  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

struct StoreTransaction {
  std::vector<StoreCompare> compares{};
  std::vector<StoreChange> changes{};  // each of another key; at least one, or a record
  std::vector<StoreRecord> records{};  // added with the changes, or not at all

  bool empty() const { return changes.empty() && records.empty(); }
};

// The result of a transaction.
struct StoreResult {
  enum class Outcome {
    kDone,     // and durable
    kStale,    // a compare failed: the reason names its key
    kInvalid,  // a key, value, record or owner is too long, a key is named twice, or nothing changes
    kFailed,   // the disk is full or broken; no transaction of the commit has changed anything
  };
  Outcome outcome = Outcome::kFailed;
  uint64_t revision = 0;  // of kDone
  uint64_t record = 0;    // of kDone: the number of its first record; the others follow it; 0: it has none
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
  static constexpr size_t kEventsKept = 10'000;  // that Since() can return
  static constexpr size_t kRecordBytesMax = 4 * 1024;
  static constexpr size_t kOwnerBytesMax = 512;
  static constexpr size_t kRecordsGone = 64;  // old ones that one commit with records removes, so that no write takes long

  // The bounds of the records that are kept: at most `age_ms` older than the newest, and `most` in all. Others go when new ones
  // come: first those that are too old, then the oldest of the owner with the most. So no owner's many records push out
  // another's few.
  struct RecordBounds {
    int64_t age_ms = int64_t{90} * 86'400'000;
    uint64_t most = 1'000'000;  // 1 at least
  };

  virtual ~Store() = default;

  virtual std::optional<StoreEntry> Get(std::string_view key) const = 0;
  // All entries whose keys begin with `prefix`, in order of keys.
  virtual std::vector<StoreEntry> Range(std::string_view prefix) const = 0;
  // Returns a result for each transaction, in order. Later ones see what earlier ones have changed.
  virtual std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) = 0;
  // The changes after `revision`, in order. kNotFound: these events are not kept any more; read everything again.
  virtual Result<std::vector<StoreEvent>> Since(uint64_t revision) const = 0;

  // The first `most` records behind that number, or the last `most` before it, by number.
  virtual Result<std::vector<StoreRecord>> RecordsAfter(uint64_t number, size_t most) const = 0;
  virtual Result<std::vector<StoreRecord>> RecordsBefore(uint64_t number, size_t most) const = 0;
  virtual uint64_t last_record() const = 0;  // the number of the newest record, even if that has gone
  virtual void SetRecordBounds(const RecordBounds& bounds) = 0;

  virtual uint64_t revision() const = 0;  // of the last transaction; 0: there was none
  virtual uint64_t epoch() const = 0;     // 1 or more
};

}  // namespace tessera
