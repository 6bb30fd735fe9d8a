#include "scheduler/duration_estimate.h"

#include <algorithm>

namespace tessera {
namespace {

// splitmix64's last step (Steele, Lea, Flood, OOPSLA'14): keys may be counted up.
uint64_t Mixed(uint64_t key) {
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

}  // namespace

size_t DurationEstimate::First(uint64_t key) const { return Mixed(key) % kEntries; }
size_t DurationEstimate::Second(uint64_t key) const { return Mixed(key) / kEntries % kEntries; }

void DurationEstimate::Learn(uint64_t key, int64_t duration_ns) {
  duration_ns = std::max<int64_t>(0, duration_ns);
  Entry &first = entries_[First(key)], &second = entries_[Second(key)];
  for (Entry* entry : {&first, &second}) {
    if (entry->duration_ns < 0 || entry->key != key) continue;
    const int64_t before_ns = entry->duration_ns;
    entry->duration_ns = duration_ns >= before_ns ? duration_ns : before_ns - (before_ns - duration_ns) / 4;
    entry->sure = duration_ns >= before_ns / 2 && duration_ns / 2 <= before_ns;
    entry->used = ++uses_;
    return;
  }
  Entry& entry = first.used <= second.used ? first : second;
  entry = {key, duration_ns, ++uses_, 0};
}

std::optional<int64_t> DurationEstimate::Find(uint64_t key) {
  for (Entry* entry : {&entries_[First(key)], &entries_[Second(key)]}) {
    if (entry->duration_ns < 0 || entry->key != key) continue;
    entry->used = ++uses_;
    return entry->duration_ns;
  }
  return std::nullopt;
}

bool DurationEstimate::IsSure(uint64_t key) const {
  for (const Entry* entry : {&entries_[First(key)], &entries_[Second(key)]}) {
    if (entry->duration_ns >= 0 && entry->key == key) return entry->sure != 0;
  }
  return false;
}

}  // namespace tessera
