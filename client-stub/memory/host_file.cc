#include "client-stub/memory/host_file.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/channel/segment.h"

namespace tessera {

uint64_t HostFile::FileBytesMax() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : uint64_t{limit.rlim_cur};
}

Result<HostFile> HostFile::Create(Kind kind, uint64_t bytes, int node) {
  const uint64_t whole = kDataOffset + (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  if (whole > FileBytesMax()) {
    return Status(StatusCode::kResourceExhausted, "RLIMIT_FSIZE allows no file of " + std::to_string(whole) + " bytes");
  }
  Result<UniqueFd> file = CreateSegmentFile("tessera-host", whole);
  if (!file.ok()) return file.status();
  HostFileHeader header;
  header.kind = kind;
  header.node = node;
  if (getrandom(header.id.data(), header.id.size(), 0) != static_cast<ssize_t>(header.id.size())) {
    return Status::FromErrno("no random bytes for memory on the host", errno);
  }
  if (pwrite(file->get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header))) {
    return Status::FromErrno("cannot write the header of memory on the host", errno);
  }
  return HostFile(std::move(*file), header, whole);
}

std::optional<HostFile> HostFile::Open(int fd) {
  HostFileHeader header;
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < static_cast<off_t>(kDataOffset)) return std::nullopt;
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (!CheckSegmentFile(fd, bytes).ok() || pread(fd, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      header.magic != HostFileHeader::kMagic || (header.kind != Kind::kPool && header.kind != Kind::kAllocation)) {
    return std::nullopt;
  }
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return std::nullopt;
  return HostFile(std::move(copy), header, bytes);
}

std::optional<Range> HostFile::RangeOf(const PoolPointer& pointer) const {
  const Range memory{kDataOffset, bytes_ - kDataOffset};
  if (pointer.magic != PoolPointer::kMagic || pointer.id != header_.id || pointer.bytes == 0 ||
      !memory.contains(pointer.offset, pointer.bytes)) {
    return std::nullopt;
  }
  return Range{pointer.offset, pointer.bytes};
}

int HostFile::Duplicate() const { return fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0); }

void HostFile::Discard(const Range& range) const {
  if (fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.base),
                static_cast<off_t>(range.bytes)) != 0) {
    LogWarning("{} bytes of memory on the host could not be given back: errno {}", range.bytes, errno);
  }
}

void BindToNode(const Range& range, int node) {
  if (node < 0) return;
  constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
  std::vector<unsigned long> nodes(static_cast<size_t>(node / kBits) + 1);
  nodes.back() = 1UL << (node % kBits);
  // One bit more than is there: the kernel counts so (mbind(2)).
  if (syscall(SYS_mbind, range.base, range.bytes, MPOL_BIND, nodes.data(), nodes.size() * kBits + 1, 0) != 0) {
    LogInfo("memory on the host is not bound to NUMA node {}: errno {}", node, errno);
  }
}

}  // namespace tessera
