#include "server/worker/memory/physical_memory.h"

#include <iterator>
#include <utility>

namespace tessera {

void PhysicalMemory::Made(Handle handle, HeldMemory memory) {
  MutexLock lock(mutex_);
  Handles& handles = handles_[handle];
  // A second handle with the same value names the same memory, which is counted once.
  if (handles.count++ == 0) handles.memory = std::make_shared<HeldMemory>(std::move(memory));
}

void PhysicalMemory::Released(Handle handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end() && --found->second.count == 0) handles_.erase(found);
}

void PhysicalMemory::Retained(Handle handle, uint64_t address) {
  MutexLock lock(mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return;
  const auto& [base, mapping] = *std::prev(after);
  if (address - base >= mapping.bytes) return;
  Handles& handles = handles_[handle];
  handles.memory = mapping.memory;
  ++handles.count;
}

void PhysicalMemory::Mapped(const Range& range, Handle handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end()) mappings_[range.base] = {range.bytes, found->second.memory};
}

void PhysicalMemory::Unmapped(const Range& range) {
  MutexLock lock(mutex_);
  mappings_.erase(mappings_.lower_bound(range.base), mappings_.lower_bound(range.base + range.bytes));
}

void PhysicalMemory::MappedInArray(Handle handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end()) in_arrays_[found->second.memory.get()] = found->second.memory;
}

uint64_t PhysicalMemory::BytesOf(Handle handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? 0 : found->second.memory->bytes();
}

}  // namespace tessera
