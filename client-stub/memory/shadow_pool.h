// Pinned memory of the library. The server's driver reads and writes it in place of the application's private memory
// (copy_in_order.h, graph_shadow.h).
//
// The sizes of shadows are powers of two. Shadows are reused, and stay until their context ends: at most about twice what copies
// and graphs needed at once. Copies that wait in one stream share a shadow, since each begins when the one before is over. The
// application cannot reach shadows. Any thread.
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
  // Of a shadow made without waiting: the mark passes when the server's driver has the memory or has refused it. 0: it has it.
  uint64_t mark = 0;
};

class ShadowPool;

// A shadow in use. It goes back to its pool when its last holder drops it.
class HeldShadow {
 public:
  HeldShadow(ShadowPool& pool, const Shadow& shadow) : pool_(pool), shadow_(shadow) {}
  ~HeldShadow();
  HeldShadow(const HeldShadow&) = delete;
  HeldShadow& operator=(const HeldShadow&) = delete;

  uint64_t address() const { return shadow_.placed.block.base; }
  uint64_t bytes() const { return shadow_.bytes; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(address()); }
  // Whether the server's driver has refused it. That is known before any visit that uses it is requested.
  bool refused(Session& session) const;
  // Takes it out of use until its context ends: nobody knows any more when the device is done with it. Calling thread only.
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
  // The same for a copy that is about to be enqueued on `stream`. It takes the shadow of the copy before, if that is large enough
  // and no other thread is enqueuing a copy there now. All of the shadow is free when the stream comes to the copy. Waits for
  // nothing: a running kernel may wait for this very thread, and the server for that kernel, when its driver takes no more work.
  // So if the server's driver refuses the memory that is a deferred error of this call, and the copy fails.
  CUresult TakeInOrder(BasicCall& call, HandleId stream, uint64_t bytes, std::shared_ptr<HeldShadow>* shadow) EXCLUDES(mutex_);
  // All of the copy has been enqueued.
  void LeaveInOrder(BasicCall& call, HandleId stream, const std::shared_ptr<HeldShadow>& shadow) EXCLUDES(mutex_);
  // The shadow is in use until `mark` is passed. The mark is closed here.
  void HoldUntil(uint64_t mark, std::shared_ptr<HeldShadow> shadow) EXCLUDES(mutex_);

  // The context has ended, and its pinned memory with it.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  friend class HeldShadow;
  struct Pending {
    std::shared_ptr<HeldShadow> shadow;
    uint64_t mark;
  };
  // Context and stream; and the thread, for a thread's own default stream.
  using StreamKey = std::tuple<uint64_t, uint64_t, uint32_t>;
  static StreamKey KeyOf(BasicCall& call, HandleId stream);
  CUresult Take(BasicCall& call, uint64_t bytes, bool waits, std::shared_ptr<HeldShadow>* shadow) EXCLUDES(mutex_);
  // Takes a free shadow of this size that the server has or may still get. False: none.
  bool TakeFree(Session& session, Shadow* shadow) EXCLUDES(mutex_);
  // Pinned memory for a new one.
  CUresult Make(BasicCall& call, bool waits, Shadow* shadow) EXCLUDES(mutex_);
  void Return(const Shadow& shadow) EXCLUDES(mutex_);
  // Frees what is no longer used.
  void Sweep(Session& session) EXCLUDES(mutex_);

  HostMemory& memory_;
  Mutex mutex_;
  // Free shadows by size, for each live context that ever took one.
  std::map<uint64_t, std::multimap<uint64_t, Shadow>> free_ GUARDED_BY(mutex_);
  // The shadow of the last enqueued copy, while any waiting copy holds it.
  std::map<StreamKey, std::weak_ptr<HeldShadow>> in_order_ GUARDED_BY(mutex_);
  std::vector<Pending> pending_ GUARDED_BY(mutex_);
};

}  // namespace tessera
