#include "server/daemon/usage_memory.h"

#include <errno.h>
#include <sys/mman.h>

#include <utility>

#include "protocol/channel/segment.h"

namespace tessera {

Result<UsageMemory> UsageMemory::Make() {
  // Sealed: a worker cannot take away the page under our feet.
  Result<UniqueFd> file = CreateSegmentFile("tessera-usage", kPageBytes);
  if (!file.ok()) return file.status();
  void* page = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, file->get(), 0);
  if (page == MAP_FAILED) return Status::FromErrno("cannot map the memory of a session's usage", errno);
  return UsageMemory(std::move(file).value(), static_cast<UsagePage*>(page));
}

UsageMemory::UsageMemory(UsageMemory&& other) noexcept
    : file_(std::move(other.file_)), page_(std::exchange(other.page_, nullptr)) {}

UsageMemory::~UsageMemory() {
  if (page_ != nullptr) munmap(page_, kPageBytes);
}

}  // namespace tessera
