#include "server/worker/high_addresses.h"

#include <sys/random.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/channel/segment.h"

namespace tessera {
namespace {

constexpr uint64_t kAlignment = uint64_t{2} << 20;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// What this process has mapped, in order of addresses, up to its stack: above that the kernel places nothing by itself.
std::vector<Range> MappingsBelowStack() {
  std::vector<Range> mappings;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line) && line.find("[stack]") == std::string::npos;) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) mappings.push_back({begin, end - begin});
  }
  return mappings;
}

uint64_t RandomPlace() {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = 0;
  // The lower half stays free for what comes to lie below.
  const uint64_t half = kLowMappings.bytes / 2;
  return kLowMappings.base + half + random % (half / kAlignment) * kAlignment;
}

}  // namespace

void HighAddresses::Occupy() {
  if (kSanitized || !occupied_.empty()) return;
  uint64_t free_from = RandomPlace();
  // Reading the list maps nothing that stays; a mapping that is gone again by then would only be one range in two.
  for (const Range& mapping : MappingsBelowStack()) {
    if (mapping.end() <= free_from) continue;
    if (mapping.base > free_from) {
      const Range gap{free_from, mapping.base - free_from};
      if (const Status taken = ReserveAddressRange(gap.base, gap.bytes); taken.ok()) {
        occupied_.push_back(gap);
      } else {
        LogDebug("high addresses stay as they are: {}", taken.message());
      }
    }
    free_from = mapping.end();
  }
}

void HighAddresses::Vacate(const Range& range) {
  std::vector<Range> kept;
  for (const Range& occupied : occupied_) {
    const uint64_t begin = std::max(occupied.base, range.base);
    const uint64_t end = std::min(occupied.end(), range.end());
    if (begin >= end) {
      kept.push_back(occupied);
      continue;
    }
    ReleaseAddressRange(begin, end - begin);
    if (occupied.base < begin) kept.push_back({occupied.base, begin - occupied.base});
    if (end < occupied.end()) kept.push_back({end, occupied.end() - end});
  }
  occupied_ = std::move(kept);
}

}  // namespace tessera
