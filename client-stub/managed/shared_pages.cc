#include "client-stub/managed/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

// Where the alias of a view is wished for: behind the address windows (protocol/memory/window_table.h). A view has terabytes of
// addresses; among those that the kernel chooses by itself it would take many of the places at which drivers put device memory.
// ThreadSanitizer ends a process that maps there.
void* AliasPlace(const Range& view) {
#if defined(__SANITIZE_THREAD__)
  return nullptr;
#else
  constexpr uint64_t kBehindWindows = 0x340000000000;
  constexpr uint64_t kWindowBytes = uint64_t{16} << 40;
  return reinterpret_cast<void*>(kBehindWindows + view.base % kWindowBytes);
#endif
}

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Result<std::unique_ptr<SharedPages>> SharedPages::Map(const Range& view) {
  rlimit file_bytes{};
  if (getrlimit(RLIMIT_FSIZE, &file_bytes) == 0 && file_bytes.rlim_cur < view.bytes) {
    return Status(StatusCode::kResourceExhausted,
                  "managed memory needs files of any size: RLIMIT_FSIZE is set; raise it with ulimit -f unlimited");
  }
  UniqueFd file(memfd_create("tessera-managed", MFD_CLOEXEC));
  if (!file.valid()) return Status::FromErrno("memfd_create for managed memory", errno);
  if (ftruncate(file.get(), static_cast<off_t>(view.bytes)) != 0) {
    return Status::FromErrno("making a file for managed memory", errno);
  }
  void* const alias = mmap(AliasPlace(view), view.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (alias == MAP_FAILED) return Status::FromErrno("mapping managed memory", errno);
  void* const mapped = mmap(Pointer(view.base), view.bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file.get(), 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    munmap(alias, view.bytes);
    return Status::FromErrno("mapping managed memory at its device addresses", error);
  }
  for (void* place : {alias, mapped}) {
    madvise(place, view.bytes, MADV_DONTFORK);
    madvise(place, view.bytes, MADV_DONTDUMP);
  }
  return std::unique_ptr<SharedPages>(new SharedPages(view, std::move(file), static_cast<std::byte*>(alias)));
}

SharedPages::~SharedPages() {
  mmap(Pointer(view_.base), view_.bytes, PROT_NONE, kReserved, -1, 0);
  munmap(alias_, view_.bytes);
}

bool SharedPages::Protect(const Range& range, Access access) {
  const int protection = access == Access::kNone ? PROT_NONE : access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  return mprotect(Pointer(range.base), range.bytes, protection) == 0;
}

bool SharedPages::ForEachTouched(const Range& range, const std::function<bool(const Range&)>& visit) const {
  const auto end = static_cast<off_t>(range.end() - view_.base);
  for (auto at = static_cast<off_t>(range.base - view_.base); at < end;) {
    const off_t data = lseek(file_.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return true;  // nothing up to the end of the file
    if (data < 0) return visit(Range{view_.base + static_cast<uint64_t>(at), static_cast<uint64_t>(end - at)});
    if (data >= end) return true;
    off_t hole = lseek(file_.get(), data, SEEK_HOLE);
    if (hole < 0 || hole > end) hole = end;
    if (!visit(Range{view_.base + static_cast<uint64_t>(data), static_cast<uint64_t>(hole - data)})) return false;
    at = hole;
  }
  return true;
}

void SharedPages::Discard(const Range& range) {
  if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.base - view_.base),
                static_cast<off_t>(range.bytes)) != 0) {
    LogDebug("managed memory was not given back to the system: errno {}", errno);
    std::fill_n(AliasOf(range.base), range.bytes, std::byte{0});
  }
}

}  // namespace tessera
