// Which records a store has, and which of them go when new ones come. Each owner has his part of what is kept: beyond the bound
// the oldest of whoever has most go, so that nobody pushes out what others have fewer of.
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
  // A record that the store has already; by number.
  void Load(const StoreRecord& record);
  // They come, and the ones that are told go: those that are too old first, Store::kRecordsGone more than come at most.
  Change Add(const std::vector<StoreRecord>& records);
  // As it was before that Add(), the last one.
  void Undo(const Change& change);

 private:
  struct One {
    uint64_t number;
    int64_t time_ms;
  };
  using Owners = std::map<std::string, std::deque<One>, std::less<>>;

  void Take(Owners::iterator owner, Change* change);

  Store::RecordBounds bounds_;
  Owners owners_;  // none of them without a record
  size_t size_ = 0;
};

}  // namespace tessera
