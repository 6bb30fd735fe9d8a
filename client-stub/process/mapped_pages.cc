#include "client-stub/process/mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tessera {

bool IsMapped(const Range& range) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr uint64_t kPages = 4096;  // asked for at once
  std::array<unsigned char, kPages> resident;
  const uint64_t end = range.end();
  for (uint64_t at = range.base & ~(page - 1); at < end; at += kPages * page) {
    const uint64_t bytes = std::min(end - at, kPages * page);
    // ENOMEM is the only answer that says so (mincore(2)); without an answer the memory counts as mapped.
    if (mincore(reinterpret_cast<void*>(at), bytes, resident.data()) != 0 && errno == ENOMEM) return false;
  }
  return true;
}

}  // namespace tessera
