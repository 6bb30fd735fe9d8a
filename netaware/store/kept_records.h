// The records that a store has, and the choice of those that go when new ones come. Beyond the bound, the oldest records of the
// owner with the most go. So no owner pushes out the records of an owner with fewer.
//
//   KeptRecords::Change change = kept.Add(records);
//   if (!written(records, change.gone)) kept.Undo(change);
//
// Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "netaware/store/store.h"

namespace tessera {

class KeptRecords {
 public:
  struct Gone {
    std::string owner{};
    uint64_t number = 0;
    int64_t time_ms = 0;
  };
  struct Change {
    std::vector<StoreRecord> added{};
    std::vector<Gone> gone{};
  };

  void SetBounds(const Store::RecordBounds& bounds) { bounds_ = bounds; }
  // Enters a record that the store has already. Call it in order of numbers.
  void Load(const StoreRecord& record);
  // Enters new records, and returns the change with the records that go. Those that are too old go first. At most
  // Store::kRecordsGone more go than come.
  Change Add(const std::vector<StoreRecord>& records);
  // Undoes `change`, which the last Add() returned.
  void Undo(const Change& change);

 private:
  struct One {
    uint64_t number;
    int64_t time_ms;
  };
  using Owners = std::map<std::string, std::deque<One>, std::less<>>;

  void Take(Owners::iterator owner, Change* change);

  Store::RecordBounds bounds_;
  Owners owners_;  // each has a record
  size_t size_ = 0;
};

}  // namespace tessera
