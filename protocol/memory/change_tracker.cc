#include "protocol/memory/change_tracker.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace tessera {
namespace {

constexpr uint64_t kBlock = 64;
// The size that is compared at once, and the size that is looked at under a range's lock.
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlice = uint64_t{1} << 20;

// Aligned words are read and written at once, so a value that fits in one is never seen in halves.
constexpr uint64_t kWord = sizeof(uint64_t);

bool IsWord(const std::byte* at, uint64_t bytes) { return bytes == kWord && reinterpret_cast<uintptr_t>(at) % kWord == 0; }

// Loads `bytes` bytes of one word, the first in the lowest byte.
uint64_t Load(const std::byte* from, uint64_t bytes) {
  if (IsWord(from, bytes)) return __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_RELAXED);
  uint64_t value = 0;
  for (uint64_t i = 0; i < bytes; ++i) {
    // Clang's atomic operations know no std::byte.
    value |= uint64_t{__atomic_load_n(reinterpret_cast<const unsigned char*>(from + i), __ATOMIC_RELAXED)} << (8 * i);
  }
  return value;
}

// Stores those bits of `value` that `mask` has, which are whole bytes. Somebody else, a device too, may be writing the others.
void Store(std::byte* to, uint64_t bytes, uint64_t value, uint64_t mask) {
  if (IsWord(to, bytes)) {
    auto* const word = reinterpret_cast<uint64_t*>(to);
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &old, (old & ~mask) | (value & mask), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return;
  }
  for (uint64_t i = 0; i < bytes; ++i) {
    if ((mask >> (8 * i) & 0xff) == 0) continue;
    __atomic_store_n(reinterpret_cast<unsigned char*>(to + i), static_cast<unsigned char>(value >> (8 * i)), __ATOMIC_RELAXED);
  }
}

// A mask with ones in every byte that differs.
uint64_t Differing(uint64_t a, uint64_t b) {
  uint64_t mask = 0;
  for (int i = 0; i < 64; i += 8) mask |= ((a ^ b) >> i & 0xff) != 0 ? uint64_t{0xff} << i : 0;
  return mask;
}

// As wide as a register of any x86-64 or AArch64, at any alignment.
using Lane = uint64_t __attribute__((vector_size(16), may_alias, aligned(1)));

// Whether `bytes` bytes are equal. Others may be writing some of them: those are looked at again when they differ, or next time.
// This is most of what a program with mapped memory pays at its launches: eight lanes at a time take 40 % of the time of eight
// words.
__attribute__((no_sanitize("thread"))) bool Equal(const std::byte* a, const std::byte* b, size_t bytes) {
  constexpr size_t kLanes = 8;
  size_t at = 0;
  for (; at + kLanes * sizeof(Lane) <= bytes; at += kLanes * sizeof(Lane)) {
    const auto* const of_a = reinterpret_cast<const Lane*>(a + at);
    const auto* const of_b = reinterpret_cast<const Lane*>(b + at);
    Lane differing{};
    for (size_t lane = 0; lane < kLanes; ++lane) differing |= of_a[lane] ^ of_b[lane];
    if ((differing[0] | differing[1]) != 0) return false;
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

// A block that is being written.
class OpenBlock {
 public:
  // Opens the block in which `address` lies.
  explicit OpenBlock(uint64_t address) : bytes_{{address & ~(kBlock - 1), 0}, {}} {}

  // Adds those bytes of the word at `at` that `mask` has ones in.
  void Add(uint64_t at, uint64_t bytes, uint64_t value, uint64_t mask) {
    for (uint64_t i = 0; i < bytes; ++i) {
      if ((mask >> (8 * i) & 0xff) == 0) continue;
      bytes_.changed[count_++] = static_cast<std::byte>(value >> (8 * i));
      bytes_.header.mask |= uint64_t{1} << (at + i - bytes_.header.address);
    }
  }

  void Close(uint64_t generation, std::vector<std::byte>* out) {
    if (count_ == 0) return;
    bytes_.header.address |= generation;
    const auto bytes = std::as_bytes(std::span(&bytes_, 1)).first(sizeof(BlockHeader) + PaddedBytes(bytes_.header.mask));
    out->insert(out->end(), bytes.begin(), bytes.end());
  }

 private:
  struct {
    BlockHeader header;
    std::byte changed[kBlock];
  } bytes_;
  size_t count_ = 0;
};

}  // namespace

struct ChangeTracker::Tracked {
  // A word that was looked at, and its value then.
  struct Word {
    Tracked* tracked = nullptr;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t value = 0;
    uint64_t changed = 0;  // has ones in its changed bytes
  };

  Tracked(const Range& range, std::byte* memory, uint64_t generation)
      : range(range), generation(generation), memory(memory), last(static_cast<std::byte*>(std::calloc(range.bytes, 1))) {}

  // Appends the changes between the addresses `*at` and `end` to `out`, until another block might not fit in `bytes_max`. `*at`
  // becomes the address where it stopped.
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
    OpenBlock block(begin);
    for (uint64_t at = begin; at < end; at = WordEnd(at, end)) Tell(Look(at, WordEnd(at, end) - at), &block);
    block.Close(generation, out);
  }

  // Finds the first changed word between `begin` and `end`. False when there is none.
  bool FindChanged(uint64_t begin, uint64_t end, Word* found) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    for (uint64_t at = begin; memory != nullptr && at < end;) {
      const uint64_t page_end = std::min(end, (at | (kPage - 1)) + 1);
      const uint64_t offset = at - range.base;
      if (Equal(memory + offset, last.get() + offset, page_end - at)) at = page_end;
      for (; at < page_end; at = WordEnd(at, page_end)) {
        *found = Look(at, WordEnd(at, page_end) - at);
        if (found->changed != 0) return true;
      }
    }
    return false;
  }

  // Tells of one word with the value that was found. The word may have changed again since, after something else did.
  void TakeWord(const Word& word, std::vector<std::byte>* out) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (memory == nullptr) return;
    OpenBlock block(word.address);
    Tell(word, &block);
    block.Close(generation, out);
  }

  void Put(const BlockHeader& header, const std::byte* values) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (memory == nullptr) return;
    const uint64_t begin = std::max(header.address, range.base);
    const uint64_t end = std::min(header.address + kBlock, range.end());
    if (begin > header.address) values += std::popcount(header.mask & ((uint64_t{1} << (begin - header.address)) - 1));
    for (uint64_t at = begin; at < end; at = WordEnd(at, end)) {
      const uint64_t bytes = WordEnd(at, end) - at;
      uint64_t value = 0, mask = 0;
      for (uint64_t i = 0; i < bytes; ++i) {
        if ((header.mask >> (at + i - header.address) & 1) == 0) continue;
        value |= std::to_integer<uint64_t>(*values++) << (8 * i);
        mask |= uint64_t{0xff} << (8 * i);
      }
      if (mask == 0) continue;
      Store(memory + (at - range.base), bytes, value, mask);
      Store(last.get() + (at - range.base), bytes, value, mask);
    }
  }

  // The end of the word in which `at` lies, but at most `end`.
  static uint64_t WordEnd(uint64_t at, uint64_t end) { return std::min(end, (at | (kWord - 1)) + 1); }

  Word Look(uint64_t at, uint64_t bytes) REQUIRES(mutex) {
    const uint64_t now = Load(memory + (at - range.base), bytes);
    return Word{this, at, bytes, now, Differing(now, Load(last.get() + (at - range.base), bytes))};
  }

  // Adds the word's changed bytes to the block. From then on they count as what both sides have.
  void Tell(const Word& word, OpenBlock* block) REQUIRES(mutex) {
    if (word.changed == 0) return;
    block->Add(word.address, word.bytes, word.value, word.changed);
    Store(last.get() + (word.address - range.base), word.bytes, word.value, word.changed);
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

void ChangeTracker::RemoveAll() {
  std::map<uint64_t, std::shared_ptr<Tracked>> gone;
  {
    MutexLock lock(mutex_);
    gone.swap(tracked_);
    count_.store(0, std::memory_order_release);
  }
  for (const auto& [base, tracked] : gone) {
    MutexLock lock(tracked->mutex);
    tracked->memory = nullptr;
  }
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
  // A thread that looked at the range before has sent what it saw by the time this lock is free.
  MutexLock sent(send_mutex_);
}

std::shared_ptr<ChangeTracker::Tracked> ChangeTracker::Find(uint64_t address) {
  MutexLock lock(mutex_);
  // A block may begin before its range does.
  auto next = tracked_.upper_bound(address + kBlock - 1);
  if (next == tracked_.begin()) return nullptr;
  return std::prev(next)->second;
}

std::vector<std::shared_ptr<ChangeTracker::Tracked>> ChangeTracker::All() {
  std::vector<std::shared_ptr<Tracked>> all;
  MutexLock lock(mutex_);
  for (const auto& [base, tracked] : tracked_) all.push_back(tracked);
  return all;
}

bool ChangeTracker::SendChanges(size_t bytes_max, const Send& send) {
  if (!any()) return true;
  MutexLock order(send_mutex_);
  return SendChangesOf(All(), bytes_max, send);
}

bool ChangeTracker::SendChangesOf(uint64_t base, size_t bytes_max, const Send& send) {
  MutexLock order(send_mutex_);
  std::shared_ptr<Tracked> tracked;
  {
    MutexLock lock(mutex_);
    const auto found = tracked_.find(base);
    if (found == tracked_.end()) return true;
    tracked = found->second;
  }
  return SendChangesOf(std::span(&tracked, 1), bytes_max, send);
}

bool ChangeTracker::SendChangesOf(std::span<const std::shared_ptr<Tracked>> ranges, size_t bytes_max, const Send& send) {
  std::vector<std::byte> message;
  for (const auto& tracked : ranges) {
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

bool ChangeTracker::SendLoneChange(const Send& send) {
  if (!any()) return true;
  MutexLock order(send_mutex_);
  const auto all = All();
  // Looks twice, for at most one changed word. Whatever was written before the word was found is visible when the second look
  // begins.
  Tracked::Word lone;
  for (int look = 0; look < 2; ++look) {
    for (const auto& tracked : all) {
      for (uint64_t at = tracked->range.base; at < tracked->range.end();) {
        const uint64_t slice_end = std::min(tracked->range.end(), at + kSlice);
        Tracked::Word found;
        if (!tracked->FindChanged(at, slice_end, &found)) {
          at = slice_end;
          continue;
        }
        const bool same = lone.tracked == found.tracked && lone.address == found.address;
        if (lone.tracked != nullptr && !same) return true;
        if (look == 0) lone = found;
        at = found.address + found.bytes;
      }
    }
    if (lone.tracked == nullptr) return true;
  }
  std::vector<std::byte> message;
  lone.tracked->TakeWord(lone, &message);
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
    if (header.mask == 0 || header.address > UINT64_MAX - 2 * kBlock || changes.size() < bytes) {
      return false;
    }
    if (tracked == nullptr || !tracked->range.contains(header.address, kBlock)) tracked = Find(header.address);
    if (tracked != nullptr && tracked->generation == generation) tracked->Put(header, changes.data());
    changes = changes.subspan(bytes);
  }
  return true;
}

}  // namespace tessera
