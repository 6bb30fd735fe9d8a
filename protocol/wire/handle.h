// The values that an application holds for objects on the server: streams, events, modules, ...
//
// The client mints them, so that creating an object needs no answer. The server mints those of objects that the driver made by
// itself; these have kServerMinted in the slot. A value is a multiple of 8 below 2^47. So it looks like a pointer of user space,
// and is never 0, 1 or 2, which are special values of CUDA:
//
//   bit  46..44   43..39  38..25       24..3   2..0
//        session  kind    generation   slot    0
//
// The session's index tells apart the objects that one process has on two servers. The generation reveals a handle of a destroyed
// object after a new one has taken its slot.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "protocol/base/mutex.h"

namespace tessera {

// The numbers are part of the protocol and equal those of protocol/spec/types.toml.
enum class HandleKind : uint8_t {
  kNone = 0,
  kContext = 1,
  kModule = 2,
  kFunction = 3,
  kLibrary = 4,
  kKernel = 5,
  kStream = 6,
  kEvent = 7,
  kGraph = 8,
  kGraphNode = 9,
  kGraphExec = 10,
  kMemoryPool = 11,
  kArray = 12,
  kMipmappedArray = 13,
  kTextureReference = 14,
  kSurfaceReference = 15,
  kLinkState = 16,
  kMemoryAllocation = 17,
  kUserObject = 18,
  kExternalMemory = 19,
  kExternalSemaphore = 20,
  kGreenContext = 21,
  kResourceDescriptor = 22,
  kGraphDeviceNode = 23,
  kAsyncCallback = 24,
  kGraphicsResource = 25,
  kLogsCallback = 26,
};

// One handle value. It can hold any 64-bit number, since an application may pass anything, and stream handles may be 0, 1 or 2.
// IsWellFormed() tells whether it has the layout above. A plain value; travels as 8 bytes.
class HandleId {
 public:
  static constexpr int kSlotBits = 22;
  static constexpr int kGenerationBits = 14;
  static constexpr int kKindBits = 5;
  static constexpr int kSessionBits = 3;
  static constexpr uint32_t kServerMinted = uint32_t{1} << (kSlotBits - 1);

  constexpr HandleId() = default;
  constexpr explicit HandleId(uint64_t value) : value_(value) {}
  // Makes a handle from its fields. Each has to fit into its number of bits.
  static constexpr HandleId Of(uint32_t session, HandleKind kind, uint32_t generation, uint32_t slot) {
    return HandleId(uint64_t{session} << 44 | static_cast<uint64_t>(kind) << 39 | uint64_t{generation} << 25 |
                    uint64_t{slot} << 3);
  }

  constexpr uint64_t value() const { return value_; }
  constexpr explicit operator uint64_t() const { return value_; }
  constexpr bool is_null() const { return value_ == 0; }
  constexpr uint32_t session() const { return Field(44, kSessionBits); }
  constexpr HandleKind kind() const { return static_cast<HandleKind>(Field(39, kKindBits)); }
  constexpr uint32_t generation() const { return Field(25, kGenerationBits); }
  constexpr uint32_t slot() const { return Field(3, kSlotBits); }
  constexpr bool server_minted() const { return (slot() & kServerMinted) != 0; }
  // True if a Mint() may have returned it: below 2^47, a multiple of 8, and with a kind. It need not be live.
  constexpr bool IsWellFormed() const { return value_ >> 47 == 0 && (value_ & 7) == 0 && kind() != HandleKind::kNone; }

  friend constexpr auto operator<=>(const HandleId&, const HandleId&) = default;

 private:
  constexpr uint32_t Field(int shift, int bits) const {
    return static_cast<uint32_t>(value_ >> shift) & ((uint32_t{1} << bits) - 1);
  }

  uint64_t value_ = 0;
};
static_assert(sizeof(HandleId) == 8);

// Mints the handles of one side of one session, and knows which handles of both sides are live. Any thread; IsLive() takes no
// lock. Its memory grows with the largest number of handles that were live at once (4 bytes each), and is never given back.
class HandleAllocator {
 public:
  enum class Side { kClient, kServer };

  // Slots of each side.
  static constexpr uint32_t kSlots = HandleId::kServerMinted;
  // A released slot is used again only after this many others were released. With 2^14 generations a value returns only after
  // 2^24 handles were minted and released meanwhile.
  static constexpr size_t kRestingSlots = 1024;

  // `session_index` has to be below 2^HandleId::kSessionBits.
  HandleAllocator(Side side, uint32_t session_index);
  ~HandleAllocator();
  HandleAllocator(const HandleAllocator&) = delete;
  HandleAllocator& operator=(const HandleAllocator&) = delete;

  uint32_t session_index() const { return session_index_; }

  // Returns a new handle, which is live from now on. Null: all kSlots of this side are live, or memory is used up.
  HandleId Mint(HandleKind kind) EXCLUDES(mutex_);
  // Makes a handle live that the peer minted. False, with nothing changed: the peer cannot have minted it (malformed, of another
  // session, of our own side), its slot is live with another generation or kind, or memory is used up.
  bool Adopt(HandleId id) EXCLUDES(mutex_);
  // Makes a handle no longer live. False: it was not live.
  bool Release(HandleId id) EXCLUDES(mutex_);

  // True if it was minted or adopted, and not released since. `id` may be any value, also one that no Mint() returned.
  bool IsLive(HandleId id) const {
    if (!id.IsWellFormed() || id.session() != session_index_) return false;
    const std::atomic<uint32_t>* state = Find(id.slot());
    return state != nullptr && state->load(std::memory_order_acquire) == LiveState(id);
  }
  bool IsLive(HandleId id, HandleKind kind) const { return id.kind() == kind && IsLive(id); }

 private:
  static constexpr uint32_t kChunkSlots = 4096;
  static constexpr uint32_t kChunks = (uint32_t{1} << HandleId::kSlotBits) / kChunkSlots;
  using Chunk = std::atomic<uint32_t>[kChunkSlots];

  // The state of a slot: bit 31 live, then kind (5 bits above the generation), then generation.
  static constexpr uint32_t kLive = uint32_t{1} << 31;
  static constexpr uint32_t LiveState(HandleId id) {
    return kLive | static_cast<uint32_t>(id.kind()) << HandleId::kGenerationBits | id.generation();
  }
  const std::atomic<uint32_t>* Find(uint32_t slot) const {
    const Chunk* chunk = chunks_[slot / kChunkSlots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[slot % kChunkSlots];
  }
  std::atomic<uint32_t>* FindOrMake(uint32_t slot) REQUIRES(mutex_);

  const Side side_;
  const uint32_t session_index_;
  Mutex mutex_;
  std::deque<uint32_t> resting_ GUARDED_BY(mutex_);  // released slots of our side, oldest first
  uint32_t used_slots_ GUARDED_BY(mutex_) = 0;       // slots of our side that were ever used
  std::atomic<Chunk*> chunks_[kChunks] = {};         // made at their first use, under the mutex, and kept
};

}  // namespace tessera
