#include "server/worker/memory/physical_memory.h"

#include <iterator>
#include <utility>

namespace tessera {

void PhysicalMemory::Made(HandleId handle, Shared memory) {
  MutexLock lock(mutex_);
  Shared& place = handles_[handle];
  if (place != nullptr) lost_.push_back(std::move(place));  // a client that names two by one handle
  place = std::move(memory);
}

void PhysicalMemory::Released(HandleId handle) {
  MutexLock lock(mutex_);
  handles_.erase(handle);
}

void PhysicalMemory::Lost(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  lost_.push_back(std::move(found->second));
  handles_.erase(found);
}

void PhysicalMemory::Retained(HandleId handle, uint64_t address) {
  MutexLock lock(mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return;
  const auto& [base, mapping] = *std::prev(after);
  if (address - base < mapping.bytes) handles_[handle] = mapping.memory;
}

void PhysicalMemory::Mapped(const Range& range, HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end()) mappings_[range.base] = {range.bytes, found->second};
}

void PhysicalMemory::Unmapped(const Range& range) {
  MutexLock lock(mutex_);
  const auto end = mappings_.lower_bound(range.base + range.bytes);
  for (auto it = mappings_.lower_bound(range.base); it != end;) {
    // Of one that goes on beyond the range a part would still hold it.
    it = range.contains(it->first, it->second.bytes) ? mappings_.erase(it) : std::next(it);
  }
}

void PhysicalMemory::MappedInArray(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end()) in_arrays_[found->second.get()] = found->second;
}

PhysicalMemory::Shared PhysicalMemory::Of(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

}  // namespace tessera
