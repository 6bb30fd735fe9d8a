#include "protocol/channel/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "protocol/base/check.h"

namespace tessera {
namespace {

std::string Range(uint64_t address, uint64_t bytes) {
  return std::to_string(bytes) + " bytes at address " + std::to_string(address);
}

Status Occupied(uint64_t address, uint64_t bytes) {
  return Status(StatusCode::kResourceExhausted, "cannot have " + Range(address, bytes) + ": something is mapped there");
}

// Maps at exactly `address`, where nothing may be. Kernels before 4.17 take the flag for a mere hint.
void* MapFree(uint64_t address, uint64_t bytes, int protection, int flags, int fd, off_t offset) {
  void* wanted = reinterpret_cast<void*>(address);
  void* got = mmap(wanted, bytes, protection, flags | MAP_FIXED_NOREPLACE, fd, offset);
  if (got != MAP_FAILED && got != wanted) {
    munmap(got, bytes);
    errno = EEXIST;
    return MAP_FAILED;
  }
  return got;
}

constexpr int kReservation = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Status ReserveAddressRange(uint64_t address, uint64_t bytes) {
  if (MapFree(address, bytes, PROT_NONE, kReservation, -1, 0) != MAP_FAILED) return Status::Ok();
  if (errno == EEXIST) return Occupied(address, bytes);
  return Status::FromErrno("cannot reserve " + Range(address, bytes), errno);
}

void ReleaseAddressRange(uint64_t address, uint64_t bytes) { munmap(reinterpret_cast<void*>(address), bytes); }

Result<UniqueFd> CreateSegmentFile(const char* name, uint64_t bytes) {
  CHECK(bytes != 0 && bytes % kPageBytes == 0);
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::FromErrno("cannot create a memory file", errno);
  // Looked at first: beyond this limit the kernel also sends a signal that ends the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    return Status(StatusCode::kResourceExhausted, "shared memory of " + std::to_string(bytes) +
                                                      " bytes cannot be had, the limit on the size of files is " +
                                                      std::to_string(limit.rlim_cur) + ": raise it (ulimit -f unlimited)");
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::FromErrno("cannot make a memory file of " + std::to_string(bytes) + " bytes", errno);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Status::FromErrno("cannot seal a memory file", errno);
  }
  return fd;
}

Status CheckSegmentFile(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat info {};
  if (fstat(fd, &info) != 0) return Status::FromErrno("cannot look at a segment's file", errno);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(StatusCode::kProtocolViolation, "the peer offered a segment that it could shrink");
  }
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) < bytes) {
    return Status(StatusCode::kProtocolViolation, "the peer offered a segment of " + std::to_string(bytes) +
                                                      " bytes with a file of " + std::to_string(info.st_size));
  }
  return Status::Ok();
}

// --- Mapping ---

Result<Mapping> Mapping::Map(int fd, uint64_t bytes, uint64_t file_offset, const MapPlacement& placement) {
  const auto offset = static_cast<off_t>(file_offset);
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  void* address = reinterpret_cast<void*>(placement.address);
  void* got = MAP_FAILED;
  switch (placement.how) {
    case MapPlacement::How::kAnywhere: got = mmap(nullptr, bytes, kProtection, MAP_SHARED, fd, offset); break;
    case MapPlacement::How::kFreeRange:
      got = MapFree(placement.address, bytes, kProtection, MAP_SHARED, fd, offset);
      if (got == MAP_FAILED && errno == EEXIST) return Occupied(placement.address, bytes);
      break;
    case MapPlacement::How::kOverReservation: got = mmap(address, bytes, kProtection, MAP_SHARED | MAP_FIXED, fd, offset); break;
  }
  if (got == MAP_FAILED) return Status::FromErrno("cannot map a segment of " + std::to_string(bytes) + " bytes", errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(got);
  mapping.size_ = bytes;
  mapping.over_reservation_ = placement.how == MapPlacement::How::kOverReservation;
  if (madvise(got, bytes, MADV_DONTFORK) != 0) return Status::FromErrno("cannot keep a segment from forked children", errno);
  return mapping;
}

Result<Mapping> Mapping::MapToRead(int fd, uint64_t bytes) {
  void* got = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (got == MAP_FAILED) return Status::FromErrno("cannot map a page of " + std::to_string(bytes) + " bytes to read", errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(got);
  mapping.size_ = bytes;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_), over_reservation_(other.over_reservation_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = other.size_;
    over_reservation_ = other.over_reservation_;
  }
  return *this;
}

void Mapping::Unmap() {
  if (data_ == nullptr) return;
  if (over_reservation_) {
    // In one step, so that nobody else's mapping can slip into the window. Should the kernel lack the memory to do it, the
    // old mapping stays, which costs its pages and nothing else.
    (void)mmap(data_, size_, PROT_NONE, kReservation | MAP_FIXED, -1, 0);
  } else {
    munmap(data_, size_);
  }
  data_ = nullptr;
}

// --- SegmentTable ---

SegmentTable::~SegmentTable() {
  // A thread that does not exist in the child may have been changing the maps at the moment of the fork, and the mappings do
  // not exist there either: nothing of it may be touched.
  if (abandoned_) static_cast<void>(maps_.release());
}

Status SegmentTable::InsertEntry(uint32_t id, std::span<std::byte> bytes, Mapping mapping) {
  MutexLock lock(mutex_);
  if (maps_->entries.size() >= kSegmentsMax) {
    return Status(StatusCode::kResourceExhausted, "more than " + std::to_string(kSegmentsMax) + " segments in one session");
  }
  const auto [entry, inserted] = maps_->entries.try_emplace(id);
  if (!inserted) return Status(StatusCode::kProtocolViolation, "segment " + std::to_string(id) + " exists already");
  entry->second.bytes = bytes;
  entry->second.mapping = std::move(mapping);
  maps_->by_address[bytes.data()] = id;
  return Status::Ok();
}

Status SegmentTable::Insert(uint32_t id, Mapping mapping) {
  const std::span<std::byte> bytes = mapping.bytes();
  return InsertEntry(id, bytes, std::move(mapping));
}

Status SegmentTable::InsertBorrowed(uint32_t id, std::span<std::byte> bytes) { return InsertEntry(id, bytes, Mapping()); }

bool SegmentTable::Remove(uint32_t id) { return RemoveEntry(id, true); }

bool SegmentTable::RemoveUnclaimed(uint32_t id) { return RemoveEntry(id, false); }

bool SegmentTable::Claim(uint32_t id) {
  MutexLock lock(mutex_);
  const auto found = maps_->entries.find(id);
  if (found == maps_->entries.end()) return false;
  return found->second.claimed = true;
}

bool SegmentTable::RemoveEntry(uint32_t id, bool claimed_too) {
  Mapping unmapped;  // outside of the lock: unmapping a large segment takes long
  MutexLock lock(mutex_);
  const auto found = maps_->entries.find(id);
  if (found == maps_->entries.end() || (found->second.claimed && !claimed_too)) return false;
  const auto address = maps_->by_address.find(found->second.bytes.data());
  if (address != maps_->by_address.end() && address->second == id) maps_->by_address.erase(address);
  unmapped = std::move(found->second.mapping);
  maps_->entries.erase(found);
  return true;
}

std::span<std::byte> SegmentTable::Resolve(uint32_t id, uint64_t offset, uint64_t length) const {
  const std::span<std::byte> bytes = Find(id);
  if (bytes.data() == nullptr || offset > bytes.size() || length > bytes.size() - offset) return {};
  return bytes.subspan(offset, length);
}

std::span<std::byte> SegmentTable::Find(uint32_t id) const {
  MutexLock lock(mutex_);
  const auto found = maps_->entries.find(id);
  return found == maps_->entries.end() ? std::span<std::byte>() : found->second.bytes;
}

bool SegmentTable::Overlaps(uint64_t address, uint64_t bytes) const {
  MutexLock lock(mutex_);
  for (const auto& [id, entry] : maps_->entries) {
    const auto begin = reinterpret_cast<uint64_t>(entry.bytes.data());
    if (address < begin + entry.bytes.size() && begin < address + bytes) return true;
  }
  return false;
}

bool SegmentTable::Locate(const void* address, uint64_t length, uint32_t* id, uint64_t* offset) const {
  const auto* at = static_cast<const std::byte*>(address);
  MutexLock lock(mutex_);
  auto next = maps_->by_address.upper_bound(at);
  if (next == maps_->by_address.begin()) return false;
  --next;
  const auto found = maps_->entries.find(next->second);
  if (found == maps_->entries.end()) return false;
  const std::span<std::byte> bytes = found->second.bytes;
  const auto begin = static_cast<uint64_t>(at - bytes.data());
  if (begin > bytes.size() || length > bytes.size() - begin) return false;
  *id = next->second;
  *offset = begin;
  return true;
}

}  // namespace tessera
