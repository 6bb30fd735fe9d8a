// The memory file behind a pool of host memory (host_pools.h) or one allocation of it (host_allocations.h). Its descriptor also
// names them to other processes, which map the same pages. Servers have no part in that.
//
//   bytes 0 to kDataOffset   HostFileHeader, zeros
//   from there               the memory; a pool hands it out in pieces
//
// The file is sparse, and sealed against shrinking: what is mapped of it can be touched. Any thread.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

// Stands in the file and in CUmemPoolPtrExportData. Other processes may have written it, so all of it is checked.
struct HostFileHeader {
  static constexpr uint64_t kMagic = 0x4c4f4f5041525354;  // "TSRAPOOL"
  enum class Kind : uint32_t { kPool, kAllocation };
  uint64_t magic = kMagic;
  std::array<std::byte, 16> id{};  // random: of this file alone
  int32_t node = -1;               // NUMA node; -1: none
  Kind kind = Kind::kPool;
};

// Where an allocation lies in its pool's file (CUmemPoolPtrExportData).
struct PoolPointer {
  static constexpr uint64_t kMagic = 0x525450504f415254;  // "TRAOPPTR"
  uint64_t magic = kMagic;
  std::array<std::byte, 16> id{};
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::array<std::byte, 24> reserved{};
};
static_assert(sizeof(PoolPointer) == sizeof(CUmemPoolPtrExportData));

class HostFile {
 public:
  // Pieces begin at multiples of this.
  static constexpr uint64_t kPieceBytes = uint64_t{2} << 20;
  static constexpr uint64_t kDataOffset = kPieceBytes;

  using Kind = HostFileHeader::Kind;

  // Files of more bytes than this end a process with a signal (getrlimit(2), RLIMIT_FSIZE).
  static uint64_t FileBytesMax();

  // A new file for at most `bytes` of memory (rounded up to pieces) on NUMA node `node` (-1: any).
  static Result<HostFile> Create(Kind kind, uint64_t bytes, int node);
  // The file of another process. The descriptor stays the caller's. nullopt: it is a descriptor of something else.
  static std::optional<HostFile> Open(int fd);

  int fd() const { return fd_.get(); }
  Kind kind() const { return header_.kind; }
  int node() const { return header_.node; }
  uint64_t bytes() const { return bytes_ - kDataOffset; }  // of memory
  const std::array<std::byte, 16>& id() const { return header_.id; }
  // The range of the file that a pointer of this pool names. nullopt: it is a pointer of another pool, or no range of this one.
  std::optional<Range> RangeOf(const PoolPointer& pointer) const;
  // Another descriptor of the file, close-on-exec; -1 with errno.
  int Duplicate() const;
  // Gives the memory behind this range of the file back to the system. Nobody uses it.
  void Discard(const Range& range) const;

 private:
  HostFile(UniqueFd fd, const HostFileHeader& header, uint64_t bytes) : fd_(std::move(fd)), header_(header), bytes_(bytes) {}

  UniqueFd fd_;
  HostFileHeader header_;
  uint64_t bytes_;  // of the file
};

// Makes the pages of a shared mapping come from NUMA node `node`, as far as the system allows.
void BindToNode(const Range& range, int node);

}  // namespace tessera
