#include "server/worker/object_table.h"

namespace tessera {
namespace {

// Whether the objects of a kind end with the context they were made in (CUDA Driver API, cuCtxDestroy).
bool EndsWithContext(HandleKind kind) {
  switch (kind) {
    case HandleKind::kModule:
    case HandleKind::kFunction:
    case HandleKind::kStream:
    case HandleKind::kEvent:
    case HandleKind::kGraphExec:
    case HandleKind::kArray:
    case HandleKind::kMipmappedArray:
    case HandleKind::kTextureReference:
    case HandleKind::kSurfaceReference:
    case HandleKind::kLinkState: return true;
    default: return false;
  }
}

}  // namespace

ObjectTable::ObjectTable(uint32_t session_index)
    : session_index_(session_index), minted_(HandleAllocator::Side::kServer, session_index) {}

ObjectTable::~ObjectTable() {
  for (auto& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

bool ObjectTable::Find(HandleId id, uint64_t* object) const {
  *object = 0;
  if (!id.IsWellFormed()) return false;
  const Chunk* chunk = chunks_[id.slot() / kChunkSlots].load(std::memory_order_acquire);
  if (chunk == nullptr) return false;
  const Slot& slot = (*chunk)[id.slot() % kChunkSlots];
  if (slot.id.load(std::memory_order_acquire) != id.value()) return false;
  // Acquire on both sides of the re-check: an object of a later generation cannot be returned for this handle.
  const uint64_t found = slot.object.load(std::memory_order_acquire);
  if (slot.id.load(std::memory_order_acquire) != id.value()) return false;
  *object = found;
  return true;
}

bool ObjectTable::Insert(HandleId id, uint64_t object, HandleId owner) {
  if (!id.IsWellFormed() || id.session() != session_index_ || id.server_minted()) return false;
  MutexLock lock(mutex_);
  InsertLocked(id, object, HolderOfLocked(owner, id.kind()));
  return true;
}

bool ObjectTable::InsertGreen(HandleId id, uint64_t object, HandleId primary) {
  if (!Insert(id, object)) return false;
  MutexLock lock(mutex_);
  primary_of_green_[id] = primary;
  had_green_.store(true, std::memory_order_release);
  return true;
}

// Streams run on the multiprocessors of the context they were made in, and end with it.
HandleId ObjectTable::HolderOfLocked(HandleId context, HandleKind kind) const {
  if (kind == HandleKind::kStream || primary_of_green_.empty()) return context;
  const auto found = primary_of_green_.find(context);
  return found == primary_of_green_.end() ? context : found->second;
}

HandleId ObjectTable::HolderOf(HandleId context) const {
  if (!had_green_.load(std::memory_order_acquire)) return context;
  MutexLock lock(mutex_);
  return HolderOfLocked(context, HandleKind::kNone);
}

std::vector<HandleId> ObjectTable::GreensOf(HandleId primary) const {
  std::vector<HandleId> greens;
  if (!had_green_.load(std::memory_order_acquire)) return greens;
  MutexLock lock(mutex_);
  for (const auto& [green, other] : primary_of_green_) {
    if (other == primary) greens.push_back(green);
  }
  return greens;
}

void ObjectTable::InsertLocked(HandleId id, uint64_t object, HandleId owner) {
  std::atomic<Chunk*>& place = chunks_[id.slot() / kChunkSlots];
  Chunk* chunk = place.load(std::memory_order_relaxed);
  if (chunk == nullptr) {
    chunk = new Chunk;
    place.store(chunk, std::memory_order_release);
  }
  Slot& slot = (*chunk)[id.slot() % kChunkSlots];
  if (slot.id.load(std::memory_order_relaxed) != 0) ClearSlot(slot, Removal::kReplaced);
  slot.object.store(object, std::memory_order_release);
  slot.owner = owner.value();
  slot.id.store(id.value(), std::memory_order_release);
  by_object_[Key{id.kind(), object}] = id;
  ++size_;
}

void ObjectTable::ClearSlot(Slot& slot, Removal how) {
  const HandleId id(slot.id.load(std::memory_order_relaxed));
  slot.id.store(0, std::memory_order_release);
  const auto entry = by_object_.find(Key{id.kind(), slot.object.load(std::memory_order_relaxed)});
  if (entry != by_object_.end() && entry->second == id) by_object_.erase(entry);
  if (id.server_minted()) minted_.Release(id);
  --size_;
  if (removed_) removed_(id, slot.object.load(std::memory_order_relaxed), how);
}

bool ObjectTable::Remove(HandleId id, uint64_t* object) {
  MutexLock lock(mutex_);
  uint64_t found = 0;
  if (!Find(id, &found)) return false;
  if (id.kind() == HandleKind::kContext) primary_of_green_.erase(id);
  ClearSlot((*chunks_[id.slot() / kChunkSlots].load(std::memory_order_relaxed))[id.slot() % kChunkSlots], Removal::kFreed);
  if (object != nullptr) *object = found;
  return true;
}

HandleId ObjectTable::Known(HandleKind kind, uint64_t object, HandleId owner) {
  if (object == 0) return HandleId();
  MutexLock lock(mutex_);
  if (const auto found = by_object_.find(Key{kind, object}); found != by_object_.end()) return found->second;
  const HandleId id = minted_.Mint(kind);
  if (id.is_null()) return id;
  InsertLocked(id, object, HolderOfLocked(owner, kind));
  return id;
}

HandleId ObjectTable::HandleOf(HandleKind kind, uint64_t object) const {
  MutexLock lock(mutex_);
  const auto found = by_object_.find(Key{kind, object});
  return found == by_object_.end() ? HandleId() : found->second;
}

void ObjectTable::RemoveOwned(HandleId owner, const std::function<void(HandleId id, uint64_t object)>& visit) {
  MutexLock lock(mutex_);
  for (const auto& place : chunks_) {
    Chunk* chunk = place.load(std::memory_order_relaxed);
    if (chunk == nullptr) continue;
    for (Slot& slot : *chunk) {
      const HandleId id(slot.id.load(std::memory_order_relaxed));
      if (id.is_null() || slot.owner != owner.value() || !EndsWithContext(id.kind())) continue;
      visit(id, slot.object.load(std::memory_order_relaxed));
      ClearSlot(slot, Removal::kFreed);
    }
  }
}

void ObjectTable::ForEach(HandleKind kind, const std::function<void(HandleId id, uint64_t object)>& visit) const {
  MutexLock lock(mutex_);
  for (const auto& place : chunks_) {
    const Chunk* chunk = place.load(std::memory_order_relaxed);
    if (chunk == nullptr) continue;
    for (const Slot& slot : *chunk) {
      const HandleId id(slot.id.load(std::memory_order_relaxed));
      if (!id.is_null() && id.kind() == kind) visit(id, slot.object.load(std::memory_order_relaxed));
    }
  }
}

size_t ObjectTable::size() const {
  MutexLock lock(mutex_);
  return size_;
}

}  // namespace tessera
