// A histogram of how long a GPU's hand-overs took: from the end of one vGPU's token until the next vGPU's token. If the next one
// came to want the GPU only later, its time counts from then. A plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

struct HandOverTimes {
  // The upper ends of the buckets. The last bucket has none.
  static constexpr std::array<int64_t, 11> kUpToNs = {50'000,    100'000,    250'000,    500'000,    1'000'000,  2'500'000,
                                                      5'000'000, 10'000'000, 25'000'000, 50'000'000, 100'000'000};

  std::array<uint64_t, kUpToNs.size() + 1> counts{};  // of each bucket alone
  int64_t sum_ns = 0;

  void Add(int64_t took_ns) {
    size_t bucket = 0;
    while (bucket < kUpToNs.size() && took_ns > kUpToNs[bucket]) ++bucket;
    ++counts[bucket];
    sum_ns += took_ns;
  }
};

}  // namespace tessera
