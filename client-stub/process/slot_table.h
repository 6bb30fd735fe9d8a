// Finds what the stub keeps for an object (a stream, an event) by its handle, without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// One T per live handle of any session of the process. Find() takes no lock; T guards itself. An entry's T must not be used
// after its handle was erased: using an object while another thread destroys it is the application's error, and finds an
// entry that was reset, never freed memory. Entries are reused with their slots; memory is never given back.
template <typename T>
class SlotTable {
 public:
  // Costs nothing until it is used: half a megabyte of untouched pages. std::bad_alloc.
  SlotTable() : chunks_(static_cast<Entry**>(std::calloc(kChunks, sizeof(Entry*)))) {
    if (chunks_ == nullptr) throw std::bad_alloc();
  }
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  T* Find(HandleId id) {
    Entry* const chunk = Chunk(ChunkOf(id)).load(std::memory_order_acquire);
    if (chunk == nullptr) return nullptr;
    Entry& entry = chunk[id.slot() % kChunkSlots];
    return entry.handle.load(std::memory_order_acquire) == id.value() ? &entry.value : nullptr;
  }

  // Makes the entry of a handle that is not in use yet: `fill` sets its T before it can be found. Null: out of memory.
  template <typename Fill>
  T* Insert(HandleId id, Fill fill) EXCLUDES(mutex_) {
    Entry* chunk = Chunk(ChunkOf(id)).load(std::memory_order_acquire);
    if (chunk == nullptr) chunk = MakeChunk(ChunkOf(id));
    if (chunk == nullptr) return nullptr;
    Entry& entry = chunk[id.slot() % kChunkSlots];
    fill(entry.value);
    entry.handle.store(id.value(), std::memory_order_release);
    return &entry.value;
  }

  void Erase(HandleId id) {
    Entry* const chunk = Chunk(ChunkOf(id)).load(std::memory_order_acquire);
    if (chunk == nullptr) return;
    uint64_t expected = id.value();
    chunk[id.slot() % kChunkSlots].handle.compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
  }

  // Calls `visit(HandleId, T&)` for every entry. Entries that come or go meanwhile may be missed.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (uint32_t index = 0; index < kChunks; ++index) {
      Entry* const chunk = Chunk(index).load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      for (uint32_t i = 0; i < kChunkSlots; ++i) {
        Entry& entry = chunk[i];
        if (const uint64_t handle = entry.handle.load(std::memory_order_acquire)) visit(HandleId(handle), entry.value);
      }
    }
  }

 private:
  static constexpr uint32_t kChunkSlots = 512;
  static constexpr uint32_t kChunks = (uint32_t{1} << (HandleId::kSlotBits + HandleId::kSessionBits)) / kChunkSlots;

  struct Entry {
    std::atomic<uint64_t> handle{0};
    T value;
  };

  static uint32_t ChunkOf(HandleId id) { return (id.session() << HandleId::kSlotBits | id.slot()) / kChunkSlots; }
  std::atomic_ref<Entry*> Chunk(uint32_t index) { return std::atomic_ref(chunks_[index]); }
  Entry* MakeChunk(uint32_t index) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (Entry* const chunk = Chunk(index).load(std::memory_order_acquire)) return chunk;
    auto* const chunk = new Entry[kChunkSlots];
    Chunk(index).store(chunk, std::memory_order_release);
    return chunk;
  }

  Mutex mutex_;
  Entry** const chunks_;  // of kChunkSlots entries each; made on first use
};

}  // namespace tessera
