// The worker's half of pinned memory that kernels use over a mirrored channel. A mirror is pages of this process, registered with
// the driver, at the address that the client's memory has as a device pointer.
//
// Client and worker tell each other what changed (protocol/memory/change_tracker.h). The client's changes are applied before the
// work that must find them (AwaitChanges), or before the answer that a stream waits for. What GPU work wrote is sent before
// anything that tells the client that the work is done. It is also sent when the work is done (mirror_watch.h). Any thread.
//
// Registering takes long, and unregistering may wait for kernels. Both happen without the lock, so that they do not hold up the
// executor, which asks whether copies may use a mirror.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/channel/segment.h"
#include "protocol/memory/change_tracker.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"
#include "server/worker/memory/mirror_watch.h"

namespace tessera {

class CallContext;
class WorkerDeliveries;
class Worker;

class WorkerMirrors {
 public:
  // Bounds on the bytes and the number of all mirrors of a session.
  static constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  static constexpr size_t kMirrorsMax = 16384;

  // What GPU work wrote to a mirror is sent after those `deliveries` that were done before.
  WorkerMirrors(Worker& worker, WorkerDeliveries& deliveries);

  // Makes the pages of `range` (whole pages of the host window) and registers them in the current context, which is `context`.
  // This first closes the mirrors that the client had there before. CUDA_ERROR_INVALID_VALUE: `range` is not in the window, a
  // segment lies there, or another thread is opening or closing a mirror there. CUDA_ERROR_OUT_OF_MEMORY: a bound is exceeded, or
  // the system has no memory. CUDA_ERROR_NOT_SUPPORTED: the driver would give the memory another device address. Otherwise the
  // driver's result.
  CUresult Open(uint64_t context, const Range& range, uint32_t generation) EXCLUDES(mutex_);
  // Closes the mirror that starts at `base`. CUDA_ERROR_INVALID_VALUE: there is none.
  CUresult Close(uint64_t base) EXCLUDES(mutex_);
  // The context is about to end, and is current: closes what was opened in it.
  void EndContext(uint64_t context) EXCLUDES(mutex_);

  // True: all of [address, address + bytes) lies in one open mirror.
  bool Contains(uint64_t address, uint64_t bytes) EXCLUDES(mutex_);

  // Returns when the first `messages` messages of changes that the client has sent are applied, or when the session has ended.
  // Executor thread.
  void AwaitChanges(uint64_t messages);
  // Notes that `stream`, the driver's for `id`, was given work that may use mirrors. Executor thread.
  void Used(CallContext& call, HandleId id, CUstream stream) EXCLUDES(mutex_);
  // True: some of that work may not be done, or not all that it wrote was sent.
  bool working() const { return watch_.working(); }
  // Sends the client what GPU work has written. May wait for room in the ring of replies. Does nothing without mirrors.
  void Tell() { SendChanges(false); }

 private:
  struct Mirror {
    Range range;
    uint64_t context = 0;
    bool open = false;  // false: a thread is opening or closing it
    Mapping pages;      // none if client and worker are one process: the client's own pages are there
  };

  // As Tell(). `lone`: such work still runs, so this sends only if all that changed is a single word.
  void SendChanges(bool lone);
  // Enters a mirror that is not open yet. CUDA_ERROR_INVALID_VALUE: another mirror overlaps it. CUDA_ERROR_OUT_OF_MEMORY: a bound
  // is exceeded.
  CUresult Claim(uint64_t context, const Range& range) EXCLUDES(mutex_);
  CUresult MakePages(const Range& range, Mapping* pages);
  CUresult Register(const Range& range);
  // Closes the mirrors for which `which` is true. CUDA_ERROR_INVALID_VALUE: there is none.
  CUresult CloseAll(const std::function<bool(const Mirror&)>& which) EXCLUDES(mutex_);
  void Forget(uint64_t base) EXCLUDES(mutex_);

  Worker& worker_;
  WorkerDeliveries& deliveries_;
  ChangeTracker changes_;
  Mutex mutex_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Mirror> mirrors_ GUARDED_BY(mutex_);  // by base, disjoint
  MirrorWatch watch_;                                      // last: its thread uses the others
};

}  // namespace tessera
