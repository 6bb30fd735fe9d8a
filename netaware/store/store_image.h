// A store in memory, without its records. Every kind of store answers from it. Changes are planned first, and applied when they
// are durable.
//
//   StoreImage::Plan plan = image.PlanOf(transactions);
//   if (written(plan)) image.Apply(std::move(plan));
//
// One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "netaware/store/store.h"

namespace tessera {

class StoreImage {
 public:
  struct Plan {
    std::vector<StoreResult> results{};  // of each transaction
    std::vector<StoreEvent> events{};    // of the transactions that are carried out
    std::vector<StoreRecord> records{};  // of the same, with their numbers
    uint64_t revision = 0;               // the store's revision after the plan
  };

  // Sets the contents, which were read from an opened store.
  void Load(std::vector<StoreEntry> entries, uint64_t revision, uint64_t last_record);

  Plan PlanOf(std::span<const StoreTransaction> transactions) const;
  void Apply(Plan plan);

  std::optional<StoreEntry> Get(std::string_view key) const;
  std::vector<StoreEntry> Range(std::string_view prefix) const;
  Result<std::vector<StoreEvent>> Since(uint64_t revision) const;
  uint64_t revision() const { return revision_; }
  uint64_t last_record() const { return last_record_; }

 private:
  struct Value {
    std::string value;
    uint64_t revision;
  };

  std::map<std::string, Value, std::less<>> entries_;
  std::deque<StoreEvent> events_;
  uint64_t events_after_ = 0;  // events up to this revision are not kept
  uint64_t revision_ = 0;
  uint64_t last_record_ = 0;
};

}  // namespace tessera
