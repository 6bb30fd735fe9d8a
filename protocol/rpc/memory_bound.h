// Decides whether the calls of a server take too much memory, and when the excess is the server's own. Pure. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

class MemoryBound {
 public:
  // How long memory has to stay above the bound to count as the process's own.
  static constexpr uint64_t kOwnNs = 5'000'000'000;

  // `own_bytes`: what the process has allocated before the first call.
  explicit MemoryBound(size_t own_bytes) : own_bytes_(own_bytes) {}

  // The memory that is the process's own: calls may take `bytes_max` more.
  size_t own_bytes() const { return own_bytes_; }

  enum class Found {
    kFits,
    kMuch,     // too much: the caller ends connections
    kMuchOwn,  // likewise; own_bytes() has just grown to the least that was allocated while nobody was connected
  };
  // Judges one look at the process: `bytes` are allocated, and calls may take `bytes_max`. `nobody`: there is no connection now.
  // Memory becomes the process's own if it was too much for kOwnNs without a break, and at some look in that time nobody was
  // connected. So clients cannot raise the bound by connecting again and again.
  Found Look(size_t bytes, size_t bytes_max, bool nobody, uint64_t now_ns);

 private:
  size_t own_bytes_;
  uint64_t much_from_ns_ = 0;      // since when it is too much; 0: it is not
  size_t least_alone_ = SIZE_MAX;  // fewest bytes since then while nobody was connected; SIZE_MAX: somebody always was
};

}  // namespace tessera
