#include "server/emulator/driver/device/memory_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "server/emulator/driver/base/options.h"

namespace tessera::emulator {
namespace {
constexpr size_t kRetiredRanges = 512;

// Where low pages begin. Each server of a client process has a part of them: two would find the same places otherwise.
constexpr uint64_t kLowPartBytes = uint64_t{62} << 30;
#ifdef __SANITIZE_ADDRESS__
// AddressSanitizer's shadow has the low addresses. Nothing else is here, neither in this process nor in a client: the kernel
// begins above row 3 of the windows (protocol/memory/window_table.h).
constexpr uint64_t kLowest = 0x7d0000000000;
static_assert(kLowest + (kSessionMax + 1) * kLowPartBytes <= 0x7e8000000000);
#else
// All parts end where ThreadSanitizer's own addresses begin.
constexpr uint64_t kLowest = 0x302000000;
static_assert(kLowest + (kSessionMax + 1) * kLowPartBytes <= 0x8000000000);
#endif

}  // namespace

void MemoryTable::Poison(void* base, uint64_t size_bytes) {
  constexpr uint64_t kWholeBytes = uint64_t{1} << 20, kStepBytes = 16 * kPageBytes, kLimitBytes = uint64_t{256} << 20;
  std::byte* const bytes = static_cast<std::byte*>(base);
  memset(bytes, kPoisonByte, std::min(size_bytes, kWholeBytes));
  for (uint64_t at = kWholeBytes; at < std::min(size_bytes, kLimitBytes); at += kStepBytes) {
    memset(bytes + at, kPoisonByte, std::min(kPageBytes, size_bytes - at));
  }
  const uint64_t last = std::min(size_bytes, kPageBytes);
  memset(bytes + size_bytes - last, kPoisonByte, last);
}

uint64_t MemoryTable::MapPages(uint64_t size_bytes, bool poison) {
  const uint64_t bytes = (size_bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return 0;
  if (poison) Poison(base, bytes);
  return reinterpret_cast<uint64_t>(base);
}

uint64_t MemoryTable::MapLowPages(uint64_t size_bytes, bool poison) {
  constexpr uint64_t kStep = uint64_t{2} << 20;
  constexpr int kAttempts = 64;
  const uint64_t first = kLowest + GetOptions().session * kLowPartBytes;
  const uint64_t end = first + kLowPartBytes;
  std::lock_guard lock(low_mutex_);
  if (next_low_ == 0) next_low_ = first;
  const uint64_t step = (size_bytes + kStep - 1) / kStep * kStep;
  for (int attempt = 0; attempt < kAttempts && step != 0 && step <= kLowPartBytes; ++attempt) {
    if (next_low_ + step > end) next_low_ = first;  // by then the first places are free again, as a rule
    void* const wanted = reinterpret_cast<void*>(next_low_);
    next_low_ += step;
    void* base = mmap(wanted, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (base == wanted) {
      if (poison) Poison(base, size_bytes);
      return reinterpret_cast<uint64_t>(base);
    }
    if (base != MAP_FAILED) munmap(base, size_bytes);
  }
  return MapPages(size_bytes, poison);
}

void MemoryTable::RetirePages(uint64_t base, uint64_t mapped_bytes) {
  if (mapped_bytes == 0) return;
  // Mapping anew gives the physical pages back and leaves the addresses taken. Should it fail, the pages stay as well.
  (void)mmap(reinterpret_cast<void*>(base), mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
  std::pair<uint64_t, uint64_t> oldest{0, 0};
  {
    std::lock_guard lock(retired_mutex_);
    retired_.emplace_back(base, mapped_bytes);
    if (retired_.size() > kRetiredRanges) {
      oldest = retired_.front();
      retired_.pop_front();
    }
  }
  if (oldest.second != 0) munmap(reinterpret_cast<void*>(oldest.first), oldest.second);
}

void MemoryTable::Insert(const AllocationPtr& allocation) {
  std::unique_lock lock(mutex_);
  allocation->buffer_id = next_buffer_id_++;
  allocations_[allocation->base] = allocation;
}

AllocationPtr MemoryTable::Remove(uint64_t base) {
  AllocationPtr allocation;
  {
    std::unique_lock lock(mutex_);
    auto found = allocations_.find(base);
    if (found == allocations_.end()) return nullptr;
    allocation = found->second;
    allocations_.erase(found);
  }
  changed_();
  return allocation;
}

std::vector<AllocationPtr> MemoryTable::RemoveIf(const std::function<bool(const Allocation&)>& test) {
  std::vector<AllocationPtr> removed;
  {
    std::unique_lock lock(mutex_);
    for (auto it = allocations_.begin(); it != allocations_.end();) {
      if (test(*it->second)) {
        removed.push_back(it->second);
        it = allocations_.erase(it);
      } else {
        ++it;
      }
    }
  }
  if (!removed.empty()) changed_();
  return removed;
}

AllocationPtr MemoryTable::FindLocked(uint64_t address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const AllocationPtr& allocation = std::prev(after)->second;
  return address < allocation->end() ? allocation : nullptr;
}

AllocationPtr MemoryTable::Find(uint64_t address) const {
  std::shared_lock lock(mutex_);
  return FindLocked(address);
}

bool MemoryTable::Covers(uint64_t address, uint64_t size_bytes, AllocationPtr* first) const {
  if (address + size_bytes < address) return false;
  std::shared_lock lock(mutex_);
  AllocationPtr allocation = FindLocked(address);
  if (allocation == nullptr) return false;
  if (first != nullptr) *first = allocation;
  const uint64_t end = address + size_bytes;
  while (allocation->end() < end) {
    // Only neighbouring mappings of one reserved range may be crossed.
    if (allocation->kind != MemoryKind::kMapped) return false;
    allocation = FindLocked(allocation->end());
    if (allocation == nullptr || allocation->kind != MemoryKind::kMapped) return false;
  }
  return true;
}

bool MemoryTable::Usable(uint64_t address, uint64_t size_bytes) const {
  AllocationPtr first;
  return Covers(address, size_bytes, &first) && !Snapshot(first).absent;
}

bool MemoryTable::Overlaps(uint64_t address, uint64_t size_bytes) const {
  std::shared_lock lock(mutex_);
  if (FindLocked(address) != nullptr) return true;
  auto next = allocations_.lower_bound(address);
  return next != allocations_.end() && next->first < address + size_bytes;
}

bool MemoryTable::Update(uint64_t base, const std::function<void(Allocation&)>& change) {
  {
    std::unique_lock lock(mutex_);
    auto found = allocations_.find(base);
    if (found == allocations_.end()) return false;
    change(*found->second);
  }
  changed_();
  return true;
}

void MemoryTable::UpdateAll(const std::function<void(Allocation&)>& change) {
  {
    std::unique_lock lock(mutex_);
    for (const auto& [base, allocation] : allocations_) change(*allocation);
  }
  changed_();
}

Allocation MemoryTable::Snapshot(const AllocationPtr& allocation) const {
  std::shared_lock lock(mutex_);
  return *allocation;
}

}  // namespace tessera::emulator
