#include "client-stub/memory/device_memory.h"

#include <mutex>

#include "client-stub/process/process_numbers.h"

namespace tessera {
namespace {

// Two symbols of one module for the same bytes.
bool IsPartOfVariable(const DeviceAllocation& part, const DeviceAllocation& whole) {
  return part.kind == DeviceAllocation::Kind::kGlobal && whole.kind == part.kind && whole.container == part.container;
}

}  // namespace

uint64_t DeviceMemory::NextBufferId() { return ProcessNumbers::Process().NextBuffer(); }

void DeviceMemory::Add(DeviceAllocation allocation) {
  allocation.buffer_id = NextBufferId();
  std::unique_lock lock(mutex_);
  auto next = allocations_.lower_bound(allocation.range.base);
  if (next != allocations_.begin()) --next;
  while (next != allocations_.end() && next->first < allocation.range.end()) {
    const DeviceAllocation& there = next->second;
    if (there.range == allocation.range && there.kind == allocation.kind) {
      if (there.container == allocation.container) return;
    } else if (there.range.contains(allocation.range.base, allocation.range.bytes) && IsPartOfVariable(allocation, there)) {
      return;
    }
    next = there.range.end() > allocation.range.base ? allocations_.erase(next) : std::next(next);
  }
  allocations_.emplace(allocation.range.base, allocation);
}

bool DeviceMemory::Remove(uint64_t base) {
  std::unique_lock lock(mutex_);
  return allocations_.erase(base) != 0;
}

std::optional<DeviceAllocation> DeviceMemory::Take(uint64_t base) {
  std::unique_lock lock(mutex_);
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return std::nullopt;
  const DeviceAllocation allocation = found->second;
  allocations_.erase(found);
  return allocation;
}

void DeviceMemory::RemoveContext(HandleId context) {
  std::unique_lock lock(mutex_);
  for (auto it = allocations_.begin(); it != allocations_.end();) {
    it = it->second.context == context && !context.is_null() ? allocations_.erase(it) : std::next(it);
  }
}

void DeviceMemory::RemoveContainer(HandleId container) {
  std::unique_lock lock(mutex_);
  std::erase_if(allocations_, [&](const auto& entry) { return entry.second.container == container && !container.is_null(); });
}

DeviceMemory::Allocations::const_iterator DeviceMemory::FindLocked(uint64_t address) const {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return allocations_.end();
  --it;
  return it->second.range.contains(address) ? it : allocations_.end();
}

std::optional<DeviceAllocation> DeviceMemory::Find(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const auto found = FindLocked(address);
  if (found == allocations_.end()) return std::nullopt;
  return found->second;
}

std::optional<DeviceAllocation> DeviceMemory::FindNearest(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return std::nullopt;
  return std::prev(after)->second;
}

bool DeviceMemory::Covers(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  auto found = FindLocked(address);
  if (found == allocations_.end()) return false;
  // Mappings next to each other are one range to the program (growing heaps map a piece at a time).
  while (!found->second.range.contains(address, bytes)) {
    if (found->second.kind != DeviceAllocation::Kind::kMapped) return false;
    const uint64_t here = found->second.range.end() - address;
    address += here;
    bytes -= here;
    ++found;
    if (found == allocations_.end() || found->first != address) return false;
  }
  return true;
}

bool DeviceMemory::AnyIn(const Range& range) const {
  std::shared_lock lock(mutex_);
  const auto it = allocations_.lower_bound(range.base);
  if (it != allocations_.end() && it->first < range.end()) return true;
  return FindLocked(range.base) != allocations_.end();
}

void DeviceMemory::RemoveMappings(const Range& range) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.lower_bound(range.base);
  while (it != allocations_.end() && it->first < range.end()) {
    it = it->second.kind == DeviceAllocation::Kind::kMapped ? allocations_.erase(it) : std::next(it);
  }
}

void DeviceMemory::ReplacePhysical(HandleId physical, HandleId by) {
  const std::unique_lock lock(mutex_);
  for (auto& [base, allocation] : allocations_) {
    if (allocation.kind == DeviceAllocation::Kind::kMapped && allocation.physical == physical) allocation.physical = by;
  }
}

bool DeviceMemory::SetSyncMemops(uint64_t address, bool value) {
  std::unique_lock lock(mutex_);
  const auto found = FindLocked(address);
  if (found == allocations_.end()) return false;
  allocations_[found->first].sync_memops = value;
  return true;
}

}  // namespace tessera
