// How much the calls of a server may take, and when what is too much is the server's own. Pure. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

class MemoryBound {
 public:
  static constexpr uint64_t kOwnNs = 5'000'000'000;

  // `own_bytes`: what the process has before the first call.
  explicit MemoryBound(size_t own_bytes) : own_bytes_(own_bytes) {}

  size_t own_bytes() const { return own_bytes_; }

  enum class Found {
    kFits,
    kMuch,     // connections are to be ended
    kMuchOwn,  // likewise; what nobody's calls can hold is the process's own from now on, and the bound is beyond that
  };
  // A look: `bytes` are allocated, calls may take `bytes_max`. `nobody`: there is no connection. Memory is the process's own when
  // it was too much for kOwnNs without a break, and was so while nobody was connected: clients that connect again and again for
  // as long raise no bound.
  Found Look(size_t bytes, size_t bytes_max, bool nobody, uint64_t now_ns);

 private:
  size_t own_bytes_;
  uint64_t much_from_ns_ = 0;      // it has been too much since then; 0: it is not
  size_t least_alone_ = SIZE_MAX;  // since then, while nobody was connected; SIZE_MAX: somebody was
};

}  // namespace tessera
