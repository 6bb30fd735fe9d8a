// A hidden table under construction. A slot that is not set says so in the log and returns CUDA_ERROR_NOT_SUPPORTED. No slot is
// null, since callers call it without a check. One thread builds a table; then any thread uses it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <utility>

namespace tessera {

// Logs the first call of each slot. Returns CUDA_ERROR_NOT_SUPPORTED. Any thread.
CUresult MissingSlot(const char* table, size_t slot);

// `Tag::kName` is the table's name. `Tag::kWords` is the number of its words, size word included (measured on driver 580).
template <typename Tag>
class HiddenTable {
 public:
  HiddenTable() { Fill(std::make_index_sequence<Tag::kWords - 1>()); }
  HiddenTable(const HiddenTable&) = delete;

  // `slot` is from 1 to kWords - 1, as everywhere here.
  template <typename Function>
  HiddenTable& Set(size_t slot, Function* function) {
    slots_[slot - 1] = reinterpret_cast<const void*>(function);
    return *this;
  }
  const void* slot(size_t slot) const { return slots_[slot - 1]; }

 private:
  template <size_t slot>
  static CUresult Missing() {
    return MissingSlot(Tag::kName, slot);
  }
  template <size_t... i>
  void Fill(std::index_sequence<i...>) {
    ((slots_[i] = reinterpret_cast<const void*>(&Missing<i + 1>)), ...);
  }

  size_t size_bytes_ = Tag::kWords * sizeof(void*);
  const void* slots_[Tag::kWords - 1];
};

}  // namespace tessera
