// A range of this process' address space with memory that is also mapped a second time, without protection.
//
// A memory file is mapped twice. The view lies at the addresses that the application knows, and each page's state decides its
// protection. The alias is readable and writable, for the library. So a page is filled before anybody sees it, and the library
// never faults on the application's addresses. Pages cost memory once they are touched. Neither a forked child nor a core file
// has the mappings. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

inline constexpr uint64_t kManagedPageBytes = 4096;

enum class Access { kNone, kRead, kReadWrite };

class SharedPages {
 public:
  // `view`: whole pages that this process keeps reserved. They are inaccessible at first.
  static Result<std::unique_ptr<SharedPages>> Map(const Range& view);
  // The view becomes reserved address space again.
  ~SharedPages();

  const Range& view() const { return view_; }
  std::byte* AliasOf(uint64_t address) const { return alias_ + (address - view_.base); }
  // `range`: whole pages. False: the system has no room for one more change of protection.
  bool Protect(const Range& range, Access access);
  // Calls `visit` for the parts of `range` (whole pages) that were written or read since the last Discard(): all other bytes are
  // zero. Ends at the first failure and returns it.
  bool ForEachTouched(const Range& range, const std::function<bool(const Range& part)>& visit) const;
  // Gives the memory back to the system. The pages read as zero again.
  void Discard(const Range& range);

 private:
  SharedPages(const Range& view, UniqueFd file, std::byte* alias) : view_(view), file_(std::move(file)), alias_(alias) {}

  const Range view_;
  const UniqueFd file_;
  std::byte* const alias_;
};

}  // namespace tessera
