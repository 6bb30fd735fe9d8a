// What a session shares with other sessions of its server, and what it has opened of theirs (server/shares/README.md).
//
//   Sharing& sharing = worker.parts().sharing();
//
// Any thread; asks the daemon, so helper threads rather than the executor. CUDA_ERROR_NOT_SUPPORTED where there is no broker.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"
#include "server/shares/share.h"

namespace tessera {

class DeviceHeap;
class ShareBroker;
class Worker;

class Sharing {
 public:
  // Both outlive it.
  Sharing(Worker& worker, DeviceHeap& heap);
  // Unmaps what is still open.
  ~Sharing();

  // The token of the block of cuMemAlloc that begins where `range` does, of which the program asked for `range.bytes`; the
  // same each time. CUDA_ERROR_INVALID_VALUE for other memory.
  CUresult ShareBlock(const Range& range, ShareToken* token) EXCLUDES(mutex_);
  // The block at `base` is being freed: its share ends.
  void ForgetBlock(uint64_t base) EXCLUDES(mutex_) {
    if (shared_count_.load(std::memory_order_acquire) != 0) Forget(Key{ShareKind::kBlock, base});
  }
  // Likewise for an event; its token.
  CUresult ShareEvent(CUevent event, ShareToken* token) EXCLUDES(mutex_);
  void ForgetEvent(CUevent event) EXCLUDES(mutex_) {
    if (shared_count_.load(std::memory_order_acquire) != 0) Forget(Key{ShareKind::kEvent, reinterpret_cast<uint64_t>(event)});
  }
  // A new share of an object that the driver has exported as `fd`, which stays the caller's. `bytes`: of a physical allocation.
  // `memory`: what is counted for the object. It is kept until Revoke(), since the server's copy of the descriptor holds the
  // driver's memory after its handle was released.
  CUresult ShareDescriptor(ShareKind kind, int fd, uint64_t bytes, std::shared_ptr<void> memory, ShareToken* token)
      EXCLUDES(mutex_);
  // The client's program has closed every copy of the descriptor that named the share.
  void Revoke(const ShareToken& token) EXCLUDES(mutex_);
  // The `memory` of a share that this session made by ShareDescriptor(); null: it is none of them.
  std::shared_ptr<void> MemoryOf(const ShareToken& token) EXCLUDES(mutex_);

  // What is shared under a token. `none` when nothing is; CUDA_ERROR_NOT_SUPPORTED when it is something of another kind.
  CUresult Fetch(const ShareToken& token, ShareKind kind, CUresult none, Share* share);
  // Opens an event of another session. CUDA_ERROR_INVALID_CONTEXT for one of this session, as natively.
  CUresult OpenEvent(const ShareToken& token, CUevent* event) EXCLUDES(mutex_);

  struct Block {
    Range range;
    CUdevice device = 0;
  };
  // Maps another session's block in the device window, for the current context, whose handle is `context`. Opened again it
  // is the same block, to be closed as often. CUDA_ERROR_INVALID_CONTEXT for a block of this session, as natively.
  CUresult OpenBlock(const ShareToken& token, HandleId context, Block* block) EXCLUDES(mutex_);
  // Gives one opening back. `*last`: it was the last, and EndClose has to follow once no work uses the block.
  // CUDA_ERROR_INVALID_VALUE when no opened block begins at `address`.
  CUresult BeginClose(uint64_t address, bool* last) EXCLUDES(mutex_);
  void EndClose(uint64_t address) EXCLUDES(mutex_);

  // The context ends, all its work is done: what was shared of it and opened in it is gone.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Key {
    ShareKind kind;
    uint64_t object;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Shared {
    ShareToken token;
    HandleId context;
  };
  struct Opened {
    ShareToken token;
    HandleId context;
    Block block;
    Range mapped;
    CUmemGenericAllocationHandle physical = 0;
    unsigned openings = 0;  // 0: closed, and mapped until no work uses it
  };

  CUresult ShareBlockLocked(const Range& range, ShareToken* token) REQUIRES(mutex_);
  CUresult Publish(const Key& key, HandleId context, const ShareFacts& facts, int fd, ShareToken* token) REQUIRES(mutex_);
  // The result of the call; tells why.
  CUresult Refused(const Status& published);
  void Forget(const Key& key) EXCLUDES(mutex_);
  bool IsOwn(const ShareToken& token) EXCLUDES(mutex_);
  CUresult Map(int fd, const ShareFacts& facts, Opened* opened);
  void Unmap(const Opened& opened);

  Worker& worker_;
  DeviceHeap& heap_;  // outlives this part
  ShareBroker* const broker_;
  std::atomic<size_t> shared_count_{0};
  Mutex mutex_;
  std::map<Key, Shared> shared_ GUARDED_BY(mutex_);
  std::map<uint64_t, Opened> opened_ GUARDED_BY(mutex_);  // by address of the block
  std::map<ShareToken, std::shared_ptr<void>> descriptors_ GUARDED_BY(mutex_);
};

}  // namespace tessera
