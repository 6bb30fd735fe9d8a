// Pinned memory of the library's own that stands in for private memory of the application: what the server's driver reads
// and writes in its place (copy_in_order.h, graph_shadow.h).
//
// Shadows have sizes that are powers of two, are used again, and stay until their context ends: at most about twice what
// copies and graphs needed at once. Copies that wait in one stream share one shadow, since each begins when the one before it is
// over. The application cannot reach them. Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "client-stub/memory/host_memory.h"
#include "client-stub/session/basic_call.h"
#include "protocol/base/mutex.h"

namespace tessera {

class Session;

struct Shadow {
  HostMemory::Placed placed;
  uint64_t bytes = 0;  // as asked for, or more
  HandleId context;
  // Made without waiting: passed when the server's driver has the memory, or has refused it. 0: it has it.
  uint64_t mark = 0;
};

class ShadowPool;

// A shadow in use: goes back to its pool with the last of those who have it.
class HeldShadow {
 public:
  HeldShadow(ShadowPool& pool, const Shadow& shadow) : pool_(pool), shadow_(shadow) {}
  ~HeldShadow();
  HeldShadow(const HeldShadow&) = delete;
  HeldShadow& operator=(const HeldShadow&) = delete;

  uint64_t address() const { return shadow_.placed.block.base; }
  uint64_t bytes() const { return shadow_.bytes; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(address()); }
  // The server's driver was asked for it, and has none. Known before any visit is asked for that uses it.
  bool refused(Session& session) const;
  // Nobody knows any more when the device is done with it: it stays out of use until its context ends. Calling thread only.
  void Lose() { lost_ = true; }

 private:
  ShadowPool& pool_;
  const Shadow shadow_;
  bool lost_ = false;
};

class ShadowPool {
 public:
  explicit ShadowPool(HostMemory& memory) : memory_(memory) {}

  // A shadow of at least `bytes`, in the call's current context. Waits for the server if it makes one. The call fails with
  // CUDA_ERROR_OUT_OF_MEMORY or the server's code.
  CUresult Take(BasicCall& call, uint64_t bytes, std::shared_ptr<HeldShadow>* shadow) EXCLUDES(mutex_);
  // The same for a copy that is about to be enqueued on `stream`: if it is large enough, the shadow of the copy before it,
  // unless another thread is enqueuing one there now. All of it is free when the stream comes to the copy. Waits for nothing: a
  // kernel that runs may wait for this very thread, and the server for that kernel, when its driver takes no more work. What the
  // server's driver refuses is a deferred error then, of this call, and the copy fails.
  CUresult TakeInOrder(BasicCall& call, HandleId stream, uint64_t bytes, std::shared_ptr<HeldShadow>* shadow) EXCLUDES(mutex_);
  // The copy has been enqueued, all of it.
  void LeaveInOrder(BasicCall& call, HandleId stream, const std::shared_ptr<HeldShadow>& shadow) EXCLUDES(mutex_);
  // The shadow is in use until `mark` is passed. The mark is closed here.
  void HoldUntil(uint64_t mark, std::shared_ptr<HeldShadow> shadow) EXCLUDES(mutex_);

  // The context has ended, its pinned memory is gone.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  friend class HeldShadow;
  struct Pending {
    std::shared_ptr<HeldShadow> shadow;
    uint64_t mark;
  };
  // Context, stream, and for a stream of the calling thread's own that thread.
  using StreamKey = std::tuple<uint64_t, uint64_t, uint32_t>;
  static StreamKey KeyOf(BasicCall& call, HandleId stream);
  CUresult Take(BasicCall& call, uint64_t bytes, bool waits, std::shared_ptr<HeldShadow>* shadow) EXCLUDES(mutex_);
  // A free one of this size, if there is any that the server has or may still get.
  bool TakeFree(Session& session, Shadow* shadow) EXCLUDES(mutex_);
  // Pinned memory for a new one.
  CUresult Make(BasicCall& call, bool waits, Shadow* shadow) EXCLUDES(mutex_);
  void Return(const Shadow& shadow) EXCLUDES(mutex_);
  // Lets go of what is no longer used.
  void Sweep(Session& session) EXCLUDES(mutex_);

  HostMemory& memory_;
  Mutex mutex_;
  // Of each live context that ever took one: free shadows by size.
  std::map<uint64_t, std::multimap<uint64_t, Shadow>> free_ GUARDED_BY(mutex_);
  // Of the copy that was enqueued last, while any that waits has it.
  std::map<StreamKey, std::weak_ptr<HeldShadow>> in_order_ GUARDED_BY(mutex_);
  std::vector<Pending> pending_ GUARDED_BY(mutex_);
};

}  // namespace tessera
