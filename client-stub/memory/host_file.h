// The memory file behind a pool of host memory (host_pools.h) or one allocation of it (host_allocations.h). It is also what names
// them to other processes: who has its descriptor maps the same pages. No server has a part in that.
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

// In the file and in CUmemPoolPtrExportData: other processes wrote it, so all of it is checked.
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
  // That of another process, whose descriptor stays the caller's. Nothing for a descriptor of anything else.
  static std::optional<HostFile> Open(int fd);

  int fd() const { return fd_.get(); }
  Kind kind() const { return header_.kind; }
  int node() const { return header_.node; }
  uint64_t bytes() const { return bytes_ - kDataOffset; }  // of memory
  const std::array<std::byte, 16>& id() const { return header_.id; }
  // Its range of the file that a pointer of this pool names. Nothing for pointers of other pools, and for what is no range of it.
  std::optional<Range> RangeOf(const PoolPointer& pointer) const;
  // Another descriptor of the file, close-on-exec; -1 with errno.
  int Duplicate() const;
  // The memory behind this range of the file is given back to the system; nobody uses it.
  void Discard(const Range& range) const;

 private:
  HostFile(UniqueFd fd, const HostFileHeader& header, uint64_t bytes) : fd_(std::move(fd)), header_(header), bytes_(bytes) {}

  UniqueFd fd_;
  HostFileHeader header_;
  uint64_t bytes_;  // of the file
};

// Has the pages of a shared mapping come from NUMA node `node`, as far as the system lets this process say so.
void BindToNode(const Range& range, int node);

}  // namespace tessera
