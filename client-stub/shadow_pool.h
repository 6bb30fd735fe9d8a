// Pinned memory of the library's own that stands in for private memory of the application: what the server's driver reads
// and writes in its place (copy_in_order.h, graph_shadow.h).
//
// Shadows have sizes that are powers of two, are used again, and stay until their context ends: at most about twice what
// copies and graphs needed at once. The application cannot reach them. Any thread; Take() may ask the server.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "client-stub/call.h"
#include "protocol/base/mutex.h"

namespace tessera {

class HostMemory;
class Session;

struct Shadow {
  uint64_t address = 0;
  uint64_t bytes = 0;  // as asked for, or more
  HandleId context;
  std::byte* data() const { return reinterpret_cast<std::byte*>(address); }
};

class ShadowPool {
 public:
  explicit ShadowPool(HostMemory& memory) : memory_(memory) {}

  // A shadow of at least `bytes`, in the call's current context. The call fails with CUDA_ERROR_OUT_OF_MEMORY or the
  // server's code.
  CUresult Take(Call& call, uint64_t bytes, Shadow* shadow) EXCLUDES(mutex_);
  void Return(const Shadow& shadow) EXCLUDES(mutex_);
  // The shadows are in use until `mark` is passed. The mark is closed here.
  void ReturnAfter(std::vector<Shadow> shadows, uint64_t mark) EXCLUDES(mutex_);

  // The context has ended, its pinned memory is gone.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Pending {
    std::vector<Shadow> shadows;
    uint64_t mark;
  };
  void Sweep(Session& session) REQUIRES(mutex_);
  void Keep(const Shadow& shadow) REQUIRES(mutex_);

  HostMemory& memory_;
  Mutex mutex_;
  // Of each live context that ever took one: free shadows by size.
  std::map<uint64_t, std::multimap<uint64_t, uint64_t>> free_ GUARDED_BY(mutex_);
  std::vector<Pending> pending_ GUARDED_BY(mutex_);
};

}  // namespace tessera
