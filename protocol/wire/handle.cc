#include "protocol/wire/handle.h"

#include <new>

#include "protocol/base/check.h"

namespace tessera {
namespace {
constexpr uint32_t kGenerationMask = (uint32_t{1} << HandleId::kGenerationBits) - 1;
}  // namespace

HandleAllocator::HandleAllocator(Side side, uint32_t session_index) : side_(side), session_index_(session_index) {
  CHECK(session_index < (uint32_t{1} << HandleId::kSessionBits));
}

HandleAllocator::~HandleAllocator() {
  for (auto& chunk : chunks_) delete[] reinterpret_cast<std::atomic<uint32_t>*>(chunk.load(std::memory_order_relaxed));
}

std::atomic<uint32_t>* HandleAllocator::FindOrMake(uint32_t slot) {
  std::atomic<Chunk*>& place = chunks_[slot / kChunkSlots];
  Chunk* chunk = place.load(std::memory_order_relaxed);
  if (chunk == nullptr) {
    auto* states = new (std::nothrow) std::atomic<uint32_t>[kChunkSlots]();
    if (states == nullptr) return nullptr;
    chunk = reinterpret_cast<Chunk*>(states);
    place.store(chunk, std::memory_order_release);
  }
  return &(*chunk)[slot % kChunkSlots];
}

HandleId HandleAllocator::Mint(HandleKind kind) {
  if (kind == HandleKind::kNone) return HandleId();
  MutexLock lock(mutex_);
  uint32_t index = 0;
  if (resting_.size() > kRestingSlots || (used_slots_ == kSlots && !resting_.empty())) {
    index = resting_.front();
    resting_.pop_front();
  } else if (used_slots_ < kSlots) {
    index = used_slots_++;
  } else {
    return HandleId();
  }
  const uint32_t slot = side_ == Side::kServer ? index | HandleId::kServerMinted : index;
  std::atomic<uint32_t>* state = FindOrMake(slot);
  if (state == nullptr) {
    resting_.push_back(index);
    return HandleId();
  }
  const uint32_t generation = (state->load(std::memory_order_relaxed) + 1) & kGenerationMask;
  const HandleId id = HandleId::Of(session_index_, kind, generation, slot);
  state->store(LiveState(id), std::memory_order_release);
  return id;
}

bool HandleAllocator::Adopt(HandleId id) {
  if (!id.IsWellFormed() || id.session() != session_index_) return false;
  if (id.server_minted() == (side_ == Side::kServer)) return false;
  MutexLock lock(mutex_);
  std::atomic<uint32_t>* state = FindOrMake(id.slot());
  if (state == nullptr) return false;
  const uint32_t before = state->load(std::memory_order_relaxed);
  if ((before & kLive) != 0) return before == LiveState(id);
  state->store(LiveState(id), std::memory_order_release);
  return true;
}

bool HandleAllocator::Release(HandleId id) {
  MutexLock lock(mutex_);
  if (!IsLive(id)) return false;
  // Keeps the generation: the next Mint() of this slot counts on from it.
  const_cast<std::atomic<uint32_t>*>(Find(id.slot()))->store(id.generation(), std::memory_order_release);
  if (id.server_minted() == (side_ == Side::kServer)) resting_.push_back(id.slot() & ~HandleId::kServerMinted);
  return true;
}

}  // namespace tessera
