#include "server/worker/memory/device_heap.h"

#include "generated/driver_table.h"
#include "protocol/base/log.h"

namespace tessera {

DeviceHeap::~DeviceHeap() {
  MutexLock lock(mutex_);
  for (const auto& [base, chunk] : in_use_) chunks_.Destroy(chunk);
}

void DeviceHeap::SetWindow(const Range& window) {
  MutexLock lock(mutex_);
  space_.SetWindow(window);
}

CUresult DeviceHeap::Allocate(uint64_t context, CUdevice device, uint64_t bytes, uint64_t* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(mutex_);
  Block block{Range{}, context, device, nullptr, false};
  if (bytes <= kSlabBlockBytesMax) {
    const CUresult result = AllocateSmall(context, device, bytes, &block.range, &block.slab);
    if (result != CUDA_SUCCESS) return result;
  } else {
    Chunk chunk;
    const CUresult result = AcquireChunk(device, bytes, &chunk);
    if (result != CUDA_SUCCESS) return result;
    block.range = chunk.range;
  }
  blocks_.emplace(block.range.base, block);
  *address = block.range.base;
  return CUDA_SUCCESS;
}

CUresult DeviceHeap::AllocateSmall(uint64_t context, CUdevice device, uint64_t bytes, Range* range, Slab** slab) {
  bytes = (bytes + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1);
  Slabs& open = open_slabs_[{context, device}];
  auto found = open.lower_bound({bytes, nullptr});
  if (found == open.end()) {
    Chunk chunk;
    const CUresult result = AcquireChunk(device, kSlabBytes, &chunk);
    if (result != CUDA_SUCCESS) return result;
    auto made = std::make_unique<Slab>(chunk, context);
    Slab* fresh = made.get();
    slabs_.emplace(fresh, std::move(made));
    found = open.emplace(fresh->blocks.largest_free(), fresh).first;
  }
  *slab = found->second;
  open.erase(found);
  *range = *(*slab)->blocks.Allocate(bytes);
  if ((*slab)->blocks.largest_free() != 0) open.emplace((*slab)->blocks.largest_free(), *slab);
  return CUDA_SUCCESS;
}

CUresult DeviceHeap::AcquireChunk(CUdevice device, uint64_t bytes, Chunk* chunk) {
  const CUresult result = chunks_.Acquire(device, bytes, chunk);
  if (result == CUDA_SUCCESS) in_use_.emplace(chunk->range.base, *chunk);
  return result;
}

void DeviceHeap::ReturnChunk(uint64_t base) {
  const auto found = in_use_.find(base);
  const Chunk chunk = found->second;
  in_use_.erase(found);
  chunks_.Return(chunk);
}

CUresult DeviceHeap::BeginFree(uint64_t address) {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.freeing) return CUDA_ERROR_INVALID_VALUE;
  found->second.freeing = true;
  return CUDA_SUCCESS;
}

void DeviceHeap::EndFree(uint64_t address) {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(address);
  // The block is gone if its context was destroyed while the free waited.
  if (found == blocks_.end() || !found->second.freeing) return;
  const Block block = found->second;
  blocks_.erase(found);
  Drop(block);
}

void DeviceHeap::Drop(const Block& block) {
  if (block.slab == nullptr) return ReturnChunk(block.range.base);
  Slab* slab = block.slab;
  Slabs& open = open_slabs_[{block.context, block.device}];
  open.erase({slab->blocks.largest_free(), slab});
  slab->blocks.Free(block.range.base);
  // One empty slab stays, so that a program that allocates and frees one small block does not make and drop slabs.
  if (slab->blocks.empty() && !open.empty()) {
    const uint64_t base = slab->chunk.range.base;
    slabs_.erase(slab);
    return ReturnChunk(base);
  }
  open.emplace(slab->blocks.largest_free(), slab);
}

void DeviceHeap::FreeContext(uint64_t context) {
  MutexLock lock(mutex_);
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    if (it->second.slab == nullptr) ReturnChunk(it->second.range.base);
    it = blocks_.erase(it);
  }
  for (auto it = slabs_.begin(); it != slabs_.end();) {
    if (it->second->context != context) {
      ++it;
      continue;
    }
    ReturnChunk(it->second->chunk.range.base);
    it = slabs_.erase(it);
  }
  for (auto it = open_slabs_.begin(); it != open_slabs_.end();) {
    it = it->first.first == context ? open_slabs_.erase(it) : std::next(it);
  }
}

CUresult DeviceHeap::SetPeerAccess(CUdevice device, CUdevice accessor, bool allow) {
  MutexLock lock(mutex_);
  return chunks_.SetAccess(device, accessor, allow, in_use_);
}

uint64_t DeviceHeap::CachedBytes(CUdevice device) {
  MutexLock lock(mutex_);
  uint64_t bytes = chunks_.CachedBytes(device);
  for (const auto& [key, slabs] : open_slabs_) {
    if (key.second == device && EmptyOf(slabs) != nullptr) bytes += kSlabBytes;
  }
  return bytes;
}

DeviceHeap::Slab* DeviceHeap::EmptyOf(const Slabs& slabs) {
  return !slabs.empty() && slabs.rbegin()->second->blocks.empty() ? slabs.rbegin()->second : nullptr;
}

uint64_t DeviceHeap::ReleaseCached(CUdevice device) {
  MutexLock lock(mutex_);
  for (auto& [key, slabs] : open_slabs_) {
    Slab* const empty = key.second == device ? EmptyOf(slabs) : nullptr;
    if (empty == nullptr) continue;
    slabs.erase(std::prev(slabs.end()));
    const uint64_t base = empty->chunk.range.base;
    slabs_.erase(empty);
    ReturnChunk(base);
  }
  return chunks_.ReleaseCached(device);
}

std::optional<DeviceHeap::BlockPlace> DeviceHeap::PlaceOf(uint64_t address) {
  MutexLock lock(mutex_);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return std::nullopt;
  const Block& block = std::prev(found)->second;
  if (block.freeing || address - block.range.base >= block.range.bytes) return std::nullopt;
  const auto chunk = in_use_.find(block.slab != nullptr ? block.slab->chunk.range.base : block.range.base);
  if (chunk == in_use_.end()) return std::nullopt;
  return BlockPlace{block.range, chunk->second, block.context};
}

CUresult DeviceHeap::ReserveForeign(uint64_t bytes, Range* out) {
  MutexLock lock(mutex_);
  return space_.Reserve(bytes, out);
}

void DeviceHeap::ReleaseForeign(uint64_t base) {
  MutexLock lock(mutex_);
  space_.Release(base);
}

bool DeviceHeap::OwnsAddress(uint64_t address) {
  MutexLock lock(mutex_);
  return space_.Find(address).has_value();
}

}  // namespace tessera
