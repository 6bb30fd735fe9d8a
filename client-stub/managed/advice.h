// Keeps a program's advice about parts of its managed memory, for cuMemRangeGetAttribute. It does not change where pages lie. Not
// thread-safe.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include "protocol/memory/range_allocator.h"

namespace tessera {

// A place as the driver names it: none, a device, the host, or a NUMA node of the host.
struct AdvisedPlace {
  CUmemLocationType type = CU_MEM_LOCATION_TYPE_INVALID;
  int id = CU_DEVICE_INVALID;
  friend bool operator==(const AdvisedPlace&, const AdvisedPlace&) = default;
};

struct Advice {
  bool read_mostly = false;
  AdvisedPlace preferred;
  AdvisedPlace last_prefetch;
  std::set<int> accessed_by;  // devices; CU_DEVICE_CPU for the host
  friend bool operator==(const Advice&, const Advice&) = default;
};

// Advice by address. Parts without advice have a default Advice.
class AdviceMap {
 public:
  // Calls `change` with the advice of each part of `range`.
  template <typename Change>
  void Update(const Range& range, Change change) {
    SplitAt(range.base);
    SplitAt(range.end());
    for (auto it = parts_.lower_bound(range.base); it != parts_.end() && it->first < range.end(); ++it) change(it->second);
  }
  // Calls `visit` with the advice of each part of `range`.
  template <typename Visit>
  void ForEach(const Range& range, Visit visit) const {
    auto it = parts_.upper_bound(range.base);
    if (it != parts_.begin()) --it;
    for (; it != parts_.end() && it->first < range.end(); ++it) visit(it->second);
  }
  explicit AdviceMap(uint64_t base) { parts_[base] = Advice{}; }

 private:
  void SplitAt(uint64_t address) {
    auto it = parts_.upper_bound(address);
    if (it == parts_.begin() || std::prev(it)->first == address) return;
    parts_.emplace_hint(it, address, std::prev(it)->second);
  }
  std::map<uint64_t, Advice> parts_;  // each holds from its address up to the next one
};

}  // namespace tessera
