// Shared memory of two processes: memory files (memfd_create(2)), how they are mapped, and the table of those in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

inline constexpr uint64_t kPageBytes = 4096;

// Where a mapping goes.
struct MapPlacement {
  enum class How {
    kAnywhere,         // the kernel chooses
    kFreeRange,        // at `address` (MAP_FIXED_NOREPLACE); kResourceExhausted if something is mapped there
    kOverReservation,  // at `address`, over memory of our own ReserveAddressRange (MAP_FIXED); unmapping restores it
  };
  How how = How::kAnywhere;
  uint64_t address = 0;  // page aligned

  static MapPlacement Anywhere() { return {}; }
  static MapPlacement FreeRange(uint64_t address) { return {How::kFreeRange, address}; }
  static MapPlacement OverReservation(uint64_t address) { return {How::kOverReservation, address}; }
};

// Reserves an address range until ReleaseAddressRange(): PROT_NONE, no memory behind it. kResourceExhausted when something is
// mapped there already.
Status ReserveAddressRange(uint64_t address, uint64_t bytes);
void ReleaseAddressRange(uint64_t address, uint64_t bytes);

// A new memory file of `bytes` (rounded up to pages by the caller) that can neither shrink nor grow; CLOEXEC. `name` shows
// up in /proc/PID/maps.
Result<UniqueFd> CreateSegmentFile(const char* name, uint64_t bytes);
// Whether a file that a peer sent can be mapped and touched without fear: sealed against shrinking, and at least `bytes`
// long. kProtocolViolation otherwise.
Status CheckSegmentFile(int fd, uint64_t bytes);

// A mapping that this object owns. Not inherited by forked children (MADV_DONTFORK). Used by one thread; the memory by all.
class Mapping {
 public:
  Mapping() = default;
  // Maps `bytes` of `fd` from `file_offset`, readable and writable, shared. The descriptor is not needed afterwards.
  static Result<Mapping> Map(int fd, uint64_t bytes, uint64_t file_offset, const MapPlacement& placement);
  // Maps the first `bytes` of `fd` for reading; another process writes them.
  static Result<Mapping> MapToRead(int fd, uint64_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { Unmap(); }

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  void Unmap();
  // Forgets the mapping without touching it: in a forked child, where it does not exist.
  void Abandon() { data_ = nullptr; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  bool over_reservation_ = false;
};

// The segments of one channel as they are mapped in this process, by id. Any thread. Before a segment is removed the caller makes
// sure that no thread uses its bytes.
class SegmentTable {
 public:
  // Segments of one session at once. Each is a mapping; a process may have 65,530 (vm.max_map_count).
  static constexpr size_t kSegmentsMax = 16384;

  SegmentTable() : maps_(std::make_unique<Maps>()) {}
  ~SegmentTable();

  // kResourceExhausted beyond the bound, kProtocolViolation for an id that is taken.
  Status Insert(uint32_t id, Mapping mapping) EXCLUDES(mutex_);
  // Enters memory that somebody else owns and keeps until Remove().
  Status InsertBorrowed(uint32_t id, std::span<std::byte> bytes) EXCLUDES(mutex_);
  // Unmaps what is owned. False when there is no such segment.
  bool Remove(uint32_t id) EXCLUDES(mutex_);
  // This side has begun to use the segment: it stays until Remove(), also when the peer closes it. False when there is no
  // such segment (any more).
  bool Claim(uint32_t id) EXCLUDES(mutex_);
  // The peer closed the segment: it goes now, unless it was claimed. False when nothing went.
  bool RemoveUnclaimed(uint32_t id) EXCLUDES(mutex_);

  // `length` bytes from `offset` of the segment. Empty with a null data() when there is no such segment or the range leaves it.
  // An empty range inside the segment has a data() that is not null.
  std::span<std::byte> Resolve(uint32_t id, uint64_t offset, uint64_t length) const EXCLUDES(mutex_);
  // Whether any segment has a byte in [address, address + bytes).
  bool Overlaps(uint64_t address, uint64_t bytes) const EXCLUDES(mutex_);
  // The whole segment; empty when there is none.
  std::span<std::byte> Find(uint32_t id) const EXCLUDES(mutex_);
  // The segment in which `length` bytes at `address` lie, and where they lie in it. False when there is none.
  bool Locate(const void* address, uint64_t length, uint32_t* id, uint64_t* offset) const EXCLUDES(mutex_);

  // In a forked child: from now on only the destructor is legal, and it leaves everything as it is. Takes no lock.
  void AbandonInChild() { abandoned_ = true; }

 private:
  struct Entry {
    std::span<std::byte> bytes;
    Mapping mapping;  // empty for borrowed memory
    bool claimed = false;
  };
  bool RemoveEntry(uint32_t id, bool claimed_too) EXCLUDES(mutex_);
  Status InsertEntry(uint32_t id, std::span<std::byte> bytes, Mapping mapping) EXCLUDES(mutex_);

  struct Maps {
    std::map<uint32_t, Entry> entries;
    std::map<const std::byte*, uint32_t> by_address;
  };

  mutable Mutex mutex_;
  std::unique_ptr<Maps> maps_ GUARDED_BY(mutex_);
  bool abandoned_ = false;
};

}  // namespace tessera
