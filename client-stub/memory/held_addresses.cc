#include "client-stub/memory/held_addresses.h"

#include <algorithm>

#include "client-stub/process/process_maps.h"
#include "client-stub/process/thread_sanitizer.h"
#include "protocol/base/log.h"
#include "protocol/channel/segment.h"

namespace tessera {
namespace {

// User addresses on x86-64 and on arm64 with the usual page tables.
constexpr uint64_t kAddressesEnd = uint64_t{1} << 47;

// Between them lie position-independent programs and their heaps, on both sides (0x55...). Above, the kernel places
// what asks for no address, and drivers on servers what they place by themselves (server/worker/high_addresses.h).
// Below the last one lie memory of pools, a terabyte for each server (server/worker/driver_places.h), and heaps that
// managed languages place by themselves.
constexpr Range kStretches[] = {
    {0x100000000000, 0x450000000000},
    {0x570000000000, 0x150000000000},
    {0x0a0000000000, 0x060000000000},
};
// Behind the windows that ThreadSanitizer leaves (window_table.h, row 3): it ends a process that maps in those above.
constexpr Range kSanitizedStretches[] = {{0x7ee000000000, uint64_t{128} << 30}};

bool Touch(const Range& a, const Range& b) { return a.base < b.end() && b.base < a.end(); }

}  // namespace

HeldAddresses::HeldAddresses()
    : HeldAddresses(kThreadSanitizer ? std::span<const Range>(kSanitizedStretches) : std::span<const Range>(kStretches)) {}

HeldAddresses::~HeldAddresses() {
  MutexLock lock(mutex_);
  for (const auto& [base, bytes] : held_) ReleaseAddressRange(base, bytes);
}

std::optional<Range> HeldAddresses::Hold(uint64_t bytes, uint64_t alignment, std::span<const Range> avoid) {
  MutexLock lock(mutex_);
  // What is known of other mappings may be old: they are looked at again when it matters, and once more when one came
  // meanwhile.
  for (int looks = 0; looks < 3; ++looks) {
    const std::optional<Range> place = FirstFree(bytes, alignment, avoid);
    if (place && Take(*place)) return place;
    LookAround();
    if (place && std::ranges::none_of(foreign_, [&](const Range& other) { return Touch(*place, other); })) {
      if (Take(*place)) return place;  // another thread's mapping is gone again
      LogInfo("{} bytes of address space cannot be reserved: a limit of this process is reached (ulimit -v)", bytes);
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool HeldAddresses::HoldAt(const Range& range) {
  if (range.bytes == 0 || range.bytes > kAddressesEnd || range.base > kAddressesEnd - range.bytes) return false;
  MutexLock lock(mutex_);
  return Take(range);
}

void HeldAddresses::Release(const Range& range) {
  MutexLock lock(mutex_);
  held_.erase(range.base);
  ReleaseAddressRange(range.base, range.bytes);
}

std::optional<Range> HeldAddresses::FirstFree(uint64_t bytes, uint64_t alignment, std::span<const Range> avoid) const {
  std::vector<Range> taken(foreign_);
  taken.insert(taken.end(), avoid.begin(), avoid.end());
  for (const auto& [base, size] : held_) taken.push_back({base, size});
  std::ranges::sort(taken, {}, &Range::base);
  for (const Range& stretch : stretches_) {
    if (bytes > stretch.bytes || alignment > stretch.end()) continue;
    const auto aligned = [alignment](uint64_t address) { return (address + alignment - 1) & ~(alignment - 1); };
    uint64_t at = aligned(stretch.base);
    for (const Range& other : taken) {
      if (other.end() <= at) continue;
      if (other.base >= at + bytes) break;
      at = aligned(other.end());
    }
    if (stretch.contains(at, bytes)) return Range{at, bytes};
  }
  return std::nullopt;
}

bool HeldAddresses::Take(const Range& range) {
  if (!ReserveAddressRange(range.base, range.bytes).ok()) return false;
  held_.emplace(range.base, range.bytes);
  return true;
}

void HeldAddresses::LookAround() {
  foreign_.clear();
  ForEachMapping([&](const MapLine& line) {
    const Range whole{line.begin, line.end - line.begin};
    if (std::ranges::none_of(stretches_, [&](const Range& stretch) { return Touch(stretch, whole); })) return true;
    // The kernel joins neighbours: what is held is cut out of the line.
    uint64_t at = line.begin;
    for (auto held = held_.lower_bound(line.begin); held != held_.end() && held->first < line.end; ++held) {
      if (held->first > at) foreign_.push_back({at, held->first - at});
      at = held->first + held->second;
    }
    if (at < line.end) foreign_.push_back({at, line.end - at});
    return true;
  });
}

}  // namespace tessera
