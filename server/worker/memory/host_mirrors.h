// The worker's half of pinned memory that kernels use over a mirrored channel: pages of this process at the address that the
// client's memory has as a device pointer, registered with the driver.
//
// Client and worker tell each other what changed (protocol/memory/change_tracker.h). What the client changed comes before the
// work that is to find it (AwaitChanges), or before the answer that a stream waits for. What GPU work wrote is told before
// anything else is from which the client may know that the work is done, and when it is done (mirror_watch.h). Any thread.
//
// Registering takes long, and unregistering may wait for kernels: both happen without the lock, so that the executor, which
// asks whether copies may use a mirror, is not held up.
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
class Deliveries;
class Worker;

class HostMirrors {
 public:
  // Bytes and number of all mirrors of a session.
  static constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  static constexpr size_t kMirrorsMax = 16384;

  // What GPU work wrote to a mirror is told behind the `deliveries` that were done before.
  HostMirrors(Worker& worker, Deliveries& deliveries);

  // Makes the pages of `range` (whole pages of the host window) and registers them in the current context, which is `context`.
  // Mirrors that the client had there before are closed. CUDA_ERROR_INVALID_VALUE outside of the window, or where a segment
  // lies or another thread is opening or closing a mirror; CUDA_ERROR_OUT_OF_MEMORY beyond a bound; CUDA_ERROR_NOT_SUPPORTED when
  // the driver would give the memory another device address; otherwise the driver's own verdict.
  CUresult Open(uint64_t context, const Range& range, uint32_t generation) EXCLUDES(mutex_);
  // CUDA_ERROR_INVALID_VALUE when no mirror starts at `base`.
  CUresult Close(uint64_t base) EXCLUDES(mutex_);
  // The context goes, and what was opened in it. It must be current.
  void EndContext(uint64_t context) EXCLUDES(mutex_);

  bool Contains(uint64_t address, uint64_t bytes) EXCLUDES(mutex_);

  // The client has sent so many messages of changes: returns when they are applied. Executor thread.
  void AwaitChanges(uint64_t messages);
  // `stream`, the driver's for `id`, was given work that may use mirrors. Executor thread.
  void Used(CallContext& call, HandleId id, CUstream stream) EXCLUDES(mutex_);
  // Some of that work may not be done, or not all that it wrote was told.
  bool working() const { return watch_.working(); }
  // Tells the client what GPU work has written. May wait for room in the ring of replies. No work without mirrors.
  void Tell() { SendChanges(false); }

 private:
  struct Mirror {
    Range range;
    uint64_t context = 0;
    bool open = false;  // false: a thread is opening or closing it
    Mapping pages;      // none when client and worker are one process: the client's own pages are there
  };

  // As Tell(); `lone`: while such work runs, if all that changed is a word.
  void SendChanges(bool lone);
  // A place for the mirror among the others, which are closed where they overlap it.
  CUresult Claim(uint64_t context, const Range& range) EXCLUDES(mutex_);
  CUresult MakePages(const Range& range, Mapping* pages);
  CUresult Register(const Range& range);
  // Closes those that `which` is true for. CUDA_ERROR_INVALID_VALUE when there are none.
  CUresult CloseAll(const std::function<bool(const Mirror&)>& which) EXCLUDES(mutex_);
  void Forget(uint64_t base) EXCLUDES(mutex_);

  Worker& worker_;
  Deliveries& deliveries_;
  ChangeTracker changes_;
  Mutex mutex_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Mirror> mirrors_ GUARDED_BY(mutex_);  // by base, disjoint
  MirrorWatch watch_;                                      // last: its thread uses the others
};

}  // namespace tessera
