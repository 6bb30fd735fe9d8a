// A store in memory, some of whose calls a test makes others of.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "netaware/store/memory_store.h"

namespace tessera {

class AroundStore : public Store {
 public:
  std::optional<StoreEntry> Get(std::string_view key) const override { return inner_->Get(key); }
  std::vector<StoreEntry> Range(std::string_view prefix) const override { return inner_->Range(prefix); }
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    return inner_->Commit(transactions);
  }
  Result<std::vector<StoreEvent>> Since(uint64_t revision) const override { return inner_->Since(revision); }
  Result<std::vector<StoreRecord>> RecordsAfter(uint64_t number, size_t most) const override {
    return inner_->RecordsAfter(number, most);
  }
  Result<std::vector<StoreRecord>> RecordsBefore(uint64_t number, size_t most) const override {
    return inner_->RecordsBefore(number, most);
  }
  uint64_t last_record() const override { return inner_->last_record(); }
  void SetRecordBounds(const RecordBounds& bounds) override { inner_->SetRecordBounds(bounds); }
  uint64_t revision() const override { return inner_->revision(); }
  uint64_t epoch() const override { return inner_->epoch(); }

 private:
  const std::unique_ptr<Store> inner_ = MakeMemoryStore();
};

}  // namespace tessera
