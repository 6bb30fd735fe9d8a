#include "client-stub/memory/host_memory.h"

#include <algorithm>
#include <mutex>

#include "client-stub/memory/device_memory.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {

HostMemory::HostMemory(Channel& channel, const Range& window)
    : channel_(channel), window_(window), addresses_(window.base, window.bytes, kPageBytes) {}

CUresult HostMemory::Place(HandleId context, uint64_t bytes, Placed* placed) {
  if (bytes > window_.bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  MutexLock lock(mutex_);
  const bool small = bytes <= kSlabBlockBytesMax;
  if (small) {
    for (auto& [base, segment] : segments_) {
      if (segment.blocks == nullptr || !segment.attached || segment.context != context) continue;
      const auto block = segment.blocks->Allocate(bytes);
      if (!block) continue;
      *placed = Placed{*block, segment.range, 0};
      return CUDA_SUCCESS;
    }
  }
  Segment* segment = MakeSegment(context, small ? kSlabBytes : bytes);
  if (segment == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  placed->segment = segment->id;
  placed->segment_range = segment->range;
  placed->block = segment->range;
  if (small) {
    segment->blocks = std::make_unique<RangeAllocator>(segment->range.base, segment->range.bytes, kAlignmentBytes);
    placed->block = *segment->blocks->Allocate(bytes);
  }
  return CUDA_SUCCESS;
}

CUresult HostMemory::PlaceFile(HandleId context, int fd, uint64_t file_offset, uint64_t bytes, Placed* placed) {
  MutexLock lock(mutex_);
  const Segment* segment = MakeSegment(context, bytes, fd, file_offset);
  if (segment == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *placed = Placed{segment->range, segment->range, segment->id};
  return CUDA_SUCCESS;
}

CUresult HostMemory::PlacePrivate(HandleId context, uint64_t bytes, Placed* placed) {
  if (bytes > window_.bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  MutexLock lock(mutex_);
  const auto range = MakeRange(bytes);
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  Result<UniqueFd> file = CreateSegmentFile("tessera-pinned", range->bytes);
  Result<Mapping> memory = file.ok() ? Mapping::Map(file->get(), range->bytes, 0, MapPlacement::OverReservation(range->base))
                                     : Result<Mapping>(file.status());
  if (!memory.ok()) {
    addresses_.Free(range->base);
    LogWarning("no memory of {} bytes for pinned memory: {}", range->bytes, memory.status().message());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  bytes_ += range->bytes;
  Segment segment;
  segment.range = *range;
  segment.context = context;
  segment.memory = std::move(*memory);
  segments_.emplace(range->base, std::move(segment));
  *placed = Placed{*range, *range, 0, false};
  return CUDA_SUCCESS;
}

CUresult HostMemory::PlaceAddresses(HandleId context, uint64_t bytes, uint64_t* address) {
  if (bytes > window_.bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  MutexLock lock(mutex_);
  const auto range = MakeRange(bytes);
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  bytes_ += range->bytes;
  Segment segment;
  segment.range = *range;
  segment.context = context;
  segments_.emplace(range->base, std::move(segment));
  *address = range->base;
  return CUDA_SUCCESS;
}

void HostMemory::SetAlias(uint64_t address, uint64_t alias, uint32_t segment) {
  std::unique_lock lock(blocks_mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  found->second.alias = alias;
  found->second.segment = segment;
  found->second.shared = true;
  aliases_[alias] = address;
  alias_count_.store(aliases_.size(), std::memory_order_release);
}

uint64_t HostMemory::AliasOf(uint64_t address) const {
  if (alias_count_.load(std::memory_order_acquire) == 0) return 0;
  const auto block = Find(address);
  return block && block->alias != 0 && block->range.contains(address) ? block->alias + (address - block->range.base) : 0;
}

uint64_t HostMemory::OriginalOf(uint64_t alias) const {
  if (alias_count_.load(std::memory_order_acquire) == 0) return 0;
  std::shared_lock lock(blocks_mutex_);
  auto next = aliases_.upper_bound(alias);
  if (next == aliases_.begin()) return 0;
  --next;
  const auto block = blocks_.find(next->second);
  if (block == blocks_.end() || alias - next->first >= block->second.range.bytes) return 0;
  return next->second + (alias - next->first);
}

std::optional<Range> HostMemory::MakeRange(uint64_t bytes) {
  bytes = (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  if (bytes_ + bytes > kBytesMax) return std::nullopt;
  // Large ones start where a huge page could.
  return addresses_.Allocate(bytes, bytes >= kSlabBytes ? uint64_t{2} << 20 : kPageBytes);
}

HostMemory::Segment* HostMemory::MakeSegment(HandleId context, uint64_t bytes, int fd, uint64_t file_offset) {
  const auto range = MakeRange(bytes);
  if (!range) return nullptr;
  const MapPlacement placement = MapPlacement::OverReservation(range->base);
  Result<uint32_t> id = fd < 0 ? channel_.OfferSegment(SegmentKind::kHostMemory, range->bytes, placement)
                               : channel_.OfferFile(fd, file_offset, range->bytes, placement);
  if (!id.ok()) {
    addresses_.Free(range->base);
    LogWarning("no shared memory of {} bytes for pinned memory: {}", range->bytes, id.status().message());
    return nullptr;
  }
  bytes_ += range->bytes;
  Segment segment;
  segment.id = *id;
  segment.range = *range;
  segment.context = context;
  return &segments_.emplace(range->base, std::move(segment)).first->second;
}

void HostMemory::Commit(const Placed& placed, uint64_t bytes, unsigned flags, CUdevice device, HandleId context) {
  MutexLock lock(mutex_);
  if (const auto found = segments_.find(placed.segment_range.base); found != segments_.end()) found->second.attached = true;
  HostBlock block;
  block.range = Range{placed.block.base, bytes};
  block.shared = placed.shared;
  block.flags = flags;
  block.device = device;
  block.context = context;
  block.buffer_id = DeviceMemory::NextBufferId();
  std::unique_lock blocks(blocks_mutex_);
  blocks_.emplace(block.range.base, block);
}

void HostMemory::CommitUnseen(const Placed& placed) {
  MutexLock lock(mutex_);
  if (const auto found = segments_.find(placed.segment_range.base); found != segments_.end()) found->second.attached = true;
}

void HostMemory::Show(HostBlock block) {
  block.buffer_id = DeviceMemory::NextBufferId();
  std::unique_lock lock(blocks_mutex_);
  blocks_.emplace(block.range.base, block);
}

bool HostMemory::Hide(uint64_t address) {
  std::unique_lock lock(blocks_mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.pool.is_null()) return false;
  blocks_.erase(found);
  return true;
}

void HostMemory::ShowMapping(HostBlock block) {
  std::unique_lock lock(blocks_mutex_);
  const auto known = blocks_.find(block.range.base);
  if (known != blocks_.end()) {
    block.buffer_id = known->second.buffer_id;
    known->second = block;
    return;
  }
  block.buffer_id = DeviceMemory::NextBufferId();
  blocks_.emplace(block.range.base, block);
  outside_count_.fetch_add(1, std::memory_order_relaxed);
}

void HostMemory::HideMapping(uint64_t base) {
  std::unique_lock lock(blocks_mutex_);
  if (blocks_.erase(base) != 0) outside_count_.fetch_sub(1, std::memory_order_relaxed);
}

void HostMemory::Abandon(const Placed& placed) {
  MutexLock lock(mutex_);
  if (placed.segment != 0 || !placed.shared) return DropSegment(placed.segment_range.base);
  Reclaim(placed.block.base);
}

void HostMemory::DropSegment(uint64_t base) {
  const auto found = segments_.find(base);
  if (found == segments_.end()) return;
  if (const uint32_t id = found->second.id; id != 0) {
    const Status closed = channel_.CloseSegment(id);
    if (!closed.ok()) LogDebug("shared segment {} could not be closed: {}", id, closed.message());
  }
  found->second.memory.Unmap();
  bytes_ -= found->second.range.bytes;
  addresses_.Free(base);
  segments_.erase(found);
}

HostMemory::Segment* HostMemory::SegmentOf(uint64_t address) {
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return nullptr;
  --it;
  return it->second.range.contains(address) ? &it->second : nullptr;
}

// Nothing uses the block any more.
void HostMemory::Reclaim(uint64_t block) {
  Segment* segment = SegmentOf(block);
  if (segment == nullptr) return;  // its context ended meanwhile
  if (segment->blocks != nullptr) {
    segment->blocks->Free(block);
  } else {
    DropSegment(segment->range.base);
  }
}

CUresult HostMemory::BeginFree(uint64_t address, uint32_t* segment_id) {
  MutexLock lock(mutex_);
  {
    std::unique_lock blocks(blocks_mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end() || found->second.registered || found->second.mapped || !found->second.pool.is_null()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    blocks_.erase(found);
  }
  const Segment* segment = SegmentOf(address);
  *segment_id = segment != nullptr && segment->blocks == nullptr ? segment->id : 0;
  return CUDA_SUCCESS;
}

void HostMemory::EndFree(uint64_t address, bool idle) {
  MutexLock lock(mutex_);
  if (idle) {
    Reclaim(address);
    for (const uint64_t block : postponed_) Reclaim(block);
    postponed_.clear();
    return;
  }
  if (const Segment* segment = SegmentOf(address); segment != nullptr && segment->blocks != nullptr) {
    postponed_.push_back(address);
  }
}

CUresult HostMemory::Register(const Range& range, unsigned flags, CUdevice device, HandleId context) {
  std::unique_lock lock(blocks_mutex_);
  auto next = blocks_.upper_bound(range.base);
  if (next != blocks_.begin() && std::prev(next)->second.range.contains(range.base)) --next;
  if (next != blocks_.end() && next->first < range.end()) {
    return next->second.registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;
  }
  HostBlock block;
  block.range = range;
  block.flags = flags;
  block.device = device;
  block.context = context;
  block.buffer_id = DeviceMemory::NextBufferId();
  block.registered = true;
  blocks_.emplace(range.base, block);
  outside_count_.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult HostMemory::Unregister(uint64_t address) {
  std::unique_lock lock(blocks_mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  aliases_.erase(found->second.alias);
  alias_count_.store(aliases_.size(), std::memory_order_release);
  blocks_.erase(found);
  outside_count_.fetch_sub(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

bool HostMemory::SetSyncMemops(uint64_t address, bool value) {
  std::unique_lock lock(blocks_mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin() || !std::prev(after)->second.range.contains(address)) return false;
  std::prev(after)->second.sync_memops = value;
  return true;
}

std::optional<HostBlock> HostMemory::Find(uint64_t address) const {
  if (const uint64_t original = InWindow(address) ? OriginalOf(address) : 0) address = original;
  std::shared_lock lock(blocks_mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return std::nullopt;
  --it;
  if (!it->second.range.contains(address)) return std::nullopt;
  return it->second;
}

bool HostMemory::Locate(uint64_t address, uint64_t bytes, uint32_t* segment, uint64_t* offset) const {
  MutexLock lock(mutex_);
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return false;
  --it;
  if (it->second.id == 0 || !it->second.range.contains(address, bytes)) return false;
  *segment = it->second.id;
  *offset = address - it->first;
  return true;
}

void HostMemory::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  {
    std::unique_lock blocks(blocks_mutex_);
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      if (it->second.context != context) {
        ++it;
        continue;
      }
      if (it->second.registered) outside_count_.fetch_sub(1, std::memory_order_relaxed);
      aliases_.erase(it->second.alias);
      alias_count_.store(aliases_.size(), std::memory_order_release);
      it = blocks_.erase(it);
    }
  }
  std::vector<uint64_t> gone;
  for (const auto& [base, segment] : segments_) {
    if (segment.context == context) gone.push_back(base);
  }
  for (const uint64_t base : gone) DropSegment(base);
}

}  // namespace tessera
