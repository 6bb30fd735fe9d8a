// A range of this process' address space with memory behind it that can also be reached where nothing protects it.
//
// The same file of memory is mapped twice: as the view, at the addresses that the application knows and with the protection
// that each page's state asks for, and as an alias, readable and writable, for the library. So a page is filled before
// anybody sees it, and the library never faults on the application's addresses. Pages cost memory once they are touched.
// A forked child has neither mapping, and a core file neither. Not thread-safe.
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
  // `view` is whole pages that this process keeps reserved; they are inaccessible at first.
  static Result<std::unique_ptr<SharedPages>> Map(const Range& view);
  // The view is reserved address space again.
  ~SharedPages();

  const Range& view() const { return view_; }
  std::byte* AliasOf(uint64_t address) const { return alias_ + (address - view_.base); }
  // Whole pages. False when the system has no room for one more change of protection.
  bool Protect(const Range& range, Access access);
  // Calls `visit` with the parts of `range` (whole pages) that were ever written or read since the last Discard: all other
  // bytes are zero. Ends at the first failure and returns it.
  bool ForEachTouched(const Range& range, const std::function<bool(const Range& part)>& visit) const;
  // Gives the memory back: the pages read as zero again.
  void Discard(const Range& range);

 private:
  SharedPages(const Range& view, UniqueFd file, std::byte* alias) : view_(view), file_(std::move(file)), alias_(alias) {}

  const Range view_;
  const UniqueFd file_;
  std::byte* const alias_;
};

}  // namespace tessera
