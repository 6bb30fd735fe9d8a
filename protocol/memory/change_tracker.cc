#include "protocol/memory/change_tracker.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace tessera {
namespace {

constexpr uint64_t kBlock = 64;
// What is compared at once, and how much of a range is looked at with its lock held.
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlice = uint64_t{1} << 20;

std::byte Load(const std::byte* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
void Store(std::byte* to, std::byte value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }

// Whether so many bytes are equal, of which others may be writing some: those are looked at again, when they differ or next
// time.
__attribute__((no_sanitize("thread"))) bool Equal(const std::byte* a, const std::byte* b, size_t bytes) {
  size_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock) {
    uint64_t of_a[kBlock / sizeof(uint64_t)];
    uint64_t of_b[kBlock / sizeof(uint64_t)];
    __builtin_memcpy(of_a, a + at, kBlock);
    __builtin_memcpy(of_b, b + at, kBlock);
    uint64_t differing = 0;
    for (size_t word = 0; word < kBlock / sizeof(uint64_t); ++word) differing |= of_a[word] ^ of_b[word];
    if (differing != 0) return false;
  }
  for (; at < bytes; ++at) {
    if (a[at] != b[at]) return false;
  }
  return true;
}

struct Freed {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

struct BlockHeader {
  uint64_t address;
  uint64_t mask;
};

size_t PaddedBytes(uint64_t mask) { return (static_cast<size_t>(std::popcount(mask)) + 7) & ~size_t{7}; }

}  // namespace

struct ChangeTracker::Tracked {
  Tracked(const Range& range, std::byte* memory, uint64_t generation)
      : range(range), generation(generation), memory(memory), last(static_cast<std::byte*>(std::calloc(range.bytes, 1))) {}

  // Appends changes between `*at` and `end`, addresses, to `out`, until another block might not fit `bytes_max`. `*at` becomes
  // where it stopped.
  void Take(uint64_t* at, uint64_t end, size_t bytes_max, std::vector<std::byte>* out) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (memory == nullptr) *at = end;
    while (*at < end) {
      const uint64_t page_end = std::min(end, (*at | (kPage - 1)) + 1);
      const uint64_t offset = *at - range.base;
      if (Equal(memory + offset, last.get() + offset, page_end - *at)) {
        *at = page_end;
        continue;
      }
      for (; *at < page_end; *at = (*at | (kBlock - 1)) + 1) {
        if (out->size() + kBlockBytesMax > bytes_max) return;
        TakeBlock(*at, std::min(page_end, (*at | (kBlock - 1)) + 1), out);
      }
      *at = page_end;
    }
  }

  void TakeBlock(uint64_t begin, uint64_t end, std::vector<std::byte>* out) REQUIRES(mutex) {
    struct {
      BlockHeader header;
      std::byte changed[kBlock];
    } block{{begin & ~(kBlock - 1), 0}, {}};
    const std::byte* from = memory + (begin - range.base);
    std::byte* before = last.get() + (begin - range.base);
    size_t count = 0;
    for (uint64_t at = begin; at < end; ++at, ++from, ++before) {
      const std::byte now = Load(from);
      if (now == *before) continue;
      *before = block.changed[count++] = now;
      block.header.mask |= uint64_t{1} << (at - block.header.address);
    }
    if (count == 0) return;
    block.header.address |= generation;
    const auto bytes = std::as_bytes(std::span(&block, 1)).first(sizeof(BlockHeader) + PaddedBytes(block.header.mask));
    out->insert(out->end(), bytes.begin(), bytes.end());
  }

  void Put(const BlockHeader& header, const std::byte* values) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (memory == nullptr) return;
    for (uint64_t mask = header.mask; mask != 0; mask &= mask - 1, ++values) {
      const uint64_t address = header.address + static_cast<uint64_t>(std::countr_zero(mask));
      if (!range.contains(address)) continue;
      Store(memory + (address - range.base), *values);
      last[address - range.base] = *values;
    }
  }

  const Range range;
  const uint64_t generation;
  Mutex mutex;
  std::byte* memory GUARDED_BY(mutex);  // null: removed
  const std::unique_ptr<std::byte[], Freed> last;
};

ChangeTracker::ChangeTracker() = default;
ChangeTracker::~ChangeTracker() = default;

bool ChangeTracker::Add(const Range& range, std::byte* memory, uint32_t generation) {
  auto tracked = std::make_shared<Tracked>(range, memory, generation % kBlock);
  if (tracked->last == nullptr) return false;
  MutexLock lock(mutex_);
  const auto next = tracked_.lower_bound(range.base);
  if (next != tracked_.end() && next->first < range.end()) return false;
  if (next != tracked_.begin() && std::prev(next)->second->range.contains(range.base)) return false;
  tracked_.emplace(range.base, std::move(tracked));
  count_.store(tracked_.size(), std::memory_order_release);
  return true;
}

void ChangeTracker::Remove(uint64_t base) {
  std::shared_ptr<Tracked> gone;
  {
    MutexLock lock(mutex_);
    const auto found = tracked_.find(base);
    if (found == tracked_.end()) return;
    gone = std::move(found->second);
    tracked_.erase(found);
    count_.store(tracked_.size(), std::memory_order_release);
  }
  {
    MutexLock lock(gone->mutex);
    gone->memory = nullptr;
  }
  // Whoever looked at it before has sent what it saw when the lock is free.
  MutexLock sent(send_mutex_);
}

std::shared_ptr<ChangeTracker::Tracked> ChangeTracker::Find(uint64_t address) {
  MutexLock lock(mutex_);
  // A block may begin before the range whose bytes it has.
  auto next = tracked_.upper_bound(address + kBlock - 1);
  if (next == tracked_.begin()) return nullptr;
  return std::prev(next)->second;
}

bool ChangeTracker::SendChanges(size_t bytes_max, const Send& send) {
  if (!any()) return true;
  MutexLock order(send_mutex_);
  std::vector<std::shared_ptr<Tracked>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [base, tracked] : tracked_) all.push_back(tracked);
  }
  std::vector<std::byte> message;
  message.reserve(bytes_max);
  for (const auto& tracked : all) {
    uint64_t at = tracked->range.base;
    while (at < tracked->range.end()) {
      const uint64_t slice_end = std::min(tracked->range.end(), at + kSlice);
      tracked->Take(&at, slice_end, bytes_max, &message);
      if (at == slice_end) continue;
      if (!send(message)) return false;
      message.clear();
    }
  }
  return message.empty() || send(message);
}

bool ChangeTracker::Apply(std::span<const std::byte> changes) {
  std::shared_ptr<Tracked> tracked;
  while (!changes.empty()) {
    BlockHeader header;
    if (changes.size() < sizeof(header)) return false;
    std::memcpy(&header, changes.data(), sizeof(header));
    changes = changes.subspan(sizeof(header));
    const size_t bytes = PaddedBytes(header.mask);
    const uint64_t generation = header.address % kBlock;
    header.address -= generation;
    if (header.mask == 0 || header.address > UINT64_MAX - 2 * kBlock ||
        changes.size() < bytes) {
      return false;
    }
    if (tracked == nullptr || !tracked->range.contains(header.address, kBlock)) tracked = Find(header.address);
    if (tracked != nullptr && tracked->generation == generation) tracked->Put(header, changes.data());
    changes = changes.subspan(bytes);
  }
  return true;
}

}  // namespace tessera
