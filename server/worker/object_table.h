// Which driver object stands behind each handle of the session.
//
// Handles are minted by the client (or here, for objects the driver made by itself); a handle names kind, slot and
// generation, so one that was freed or is of another kind is not found. Lookups take no lock: the executor does several
// per record. Entering and removing take one. Any thread.
//
// The table does not own the objects: freeing them is the work of the calls that free them, and what a client leaves
// behind goes with the worker's process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

class ObjectTable {
 public:
  // Live objects of a session, entered by either side: 2^21 each is what a handle's slot can count, and far more than
  // drivers bear. Memory grows with use: 24 bytes a slot.
  static constexpr uint32_t kSlots = uint32_t{1} << HandleId::kSlotBits;

  explicit ObjectTable(uint32_t session_index);
  ~ObjectTable();
  ObjectTable(const ObjectTable&) = delete;
  ObjectTable& operator=(const ObjectTable&) = delete;

  // The object behind a live handle. False, and 0, for every other handle.
  bool Find(HandleId id, uint64_t* object) const;

  // Enters an object under a handle that the client minted. False when it is not one that a client may mint: malformed, of
  // another session, or of the server's slots. What stood in the slot before is replaced: which of its own slots are free
  // is the client's business (it releases the handles of a context's objects when the context ends).
  // `owner` is the context the object belongs to, if any: given as the context that was current, see HolderOf.
  bool Insert(HandleId id, uint64_t object, HandleId owner = {}) EXCLUDES(mutex_);

  // Enters the context of a green context, whose objects but streams belong to `primary`.
  bool InsertGreen(HandleId id, uint64_t object, HandleId primary) EXCLUDES(mutex_);
  // The context that owns what is made while `context` is current: the context, or behind a green one the primary. Takes a
  // lock only once there was a green one.
  HandleId HolderOf(HandleId context) const EXCLUDES(mutex_);
  // The contexts of green contexts on the device of a primary context.
  std::vector<HandleId> GreensOf(HandleId primary) const EXCLUDES(mutex_);

  // Removes a live handle and says what it stood for. The slot may then be minted again. False when it is not live.
  bool Remove(HandleId id, uint64_t* object = nullptr) EXCLUDES(mutex_);

  // The handle of an object: the latest that was entered for it, else a new one minted here. A zero handle for object 0,
  // and when no more can be minted.
  HandleId Known(HandleKind kind, uint64_t object, HandleId owner = {}) EXCLUDES(mutex_);
  // The handle of an object; a zero handle when it has none.
  HandleId HandleOf(HandleKind kind, uint64_t object) const EXCLUDES(mutex_);

  enum class Removal {
    kFreed,     // the object was freed, or ended with its context
    kReplaced,  // another object was entered in its slot: nobody freed it, and nobody can any more
  };
  // `removed` is called for each handle that is not live any more, whoever removed it, and must not call back into the table.
  // Once, before the first record.
  void OnRemoved(std::function<void(HandleId id, uint64_t object, Removal how)> removed) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    removed_ = std::move(removed);
  }

  // Removes every object that ended with its context `owner`: modules, functions, streams, events, executable graphs,
  // arrays and references; libraries, kernels, graphs, pools and physical memory outlive it. `visit` is called for each and
  // must not call back into the table.
  void RemoveOwned(HandleId owner, const std::function<void(HandleId id, uint64_t object)>& visit) EXCLUDES(mutex_);
  // Calls `visit` for every live handle of a kind, in no particular order. `visit` must not call back into the table.
  void ForEach(HandleKind kind, const std::function<void(HandleId id, uint64_t object)>& visit) const EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);

 private:
  static constexpr uint32_t kChunkSlots = 4096;
  static constexpr uint32_t kChunks = kSlots / kChunkSlots;

  // Readers look at `id`, then `object`, then `id` again; writers change them under the mutex, `id` last when entering
  // and first when removing.
  struct Slot {
    std::atomic<uint64_t> id{0};
    std::atomic<uint64_t> object{0};
    uint64_t owner = 0;  // under the mutex
  };
  using Chunk = std::array<Slot, kChunkSlots>;
  struct Key {
    HandleKind kind;
    uint64_t object;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return std::hash<uint64_t>()(key.object ^ static_cast<uint64_t>(key.kind) << 56); }
  };

  void InsertLocked(HandleId id, uint64_t object, HandleId owner) REQUIRES(mutex_);
  HandleId HolderOfLocked(HandleId context, HandleKind kind) const REQUIRES(mutex_);
  std::atomic<bool> had_green_{false};
  std::map<HandleId, HandleId> primary_of_green_ GUARDED_BY(mutex_);
  void ClearSlot(Slot& slot, Removal how) REQUIRES(mutex_);

  const uint32_t session_index_;
  mutable Mutex mutex_;
  HandleAllocator minted_;  // handles minted here
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::unordered_map<Key, HandleId, KeyHash> by_object_ GUARDED_BY(mutex_);
  size_t size_ GUARDED_BY(mutex_) = 0;
  std::function<void(HandleId id, uint64_t object, Removal how)> removed_ GUARDED_BY(mutex_);
};

}  // namespace tessera
