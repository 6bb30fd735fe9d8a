// Device pointers of host memory that only this process has: registered memory, and over a mirrored channel all pinned memory.
// What a kernel gets is a mirror of it.
//
// Where client and server share pages a mirror is pinned memory of the same size, at its own address (the device attribute
// that promises equal addresses is filtered to 0). Over a mirrored channel it is memory of the worker's, for pinned memory at
// the very address that the program has; both sides tell each other what changed (protocol/memory/change_tracker.h).
//
// A mirror is made when a program asks for the device pointer of the memory; without shared pages also when an address in it
// is among the parameters of a kernel or in ordinary memory of up to 32 KiB that is copied to the device, or the target of an
// operation on the device. A kernel that comes by such an address in another way fails (700).
// From then on the two are reconciled wherever a stream meets this process, in stream order: before and after every launch of
// a kernel or graph, around host functions and the library's own visits, and when a call that waits for work returns. Bytes
// that differ from what both had at the last meeting were changed by one side and are copied to the other; of a byte that
// both changed, which is a race natively, the device's value stays (without shared pages: either). So a kernel sees what was
// written before it started and the program sees what a kernel wrote when anything that follows the kernel sees it. What one
// side writes while a kernel runs the other does not see, with one exception: without shared pages a running kernel sees what
// the program changes while all that is changed lies in one aligned word of eight bytes, a flag that the kernel waits for
// (flag_watch.h). More could not be told in the order in which it was written. Any other polling of such memory is not
// supported, nor is cuStreamWaitValue on it.
//
// Cost, while there are mirrors: three times the memory (without shared pages: twice on each side), and per launch two visits
// of the host (some 20 us) and two passes over all mirrors (a third of a second per GiB). Pinned memory that is shared has none
// of that. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client-stub/call.h"
#include "client-stub/flag_watch.h"
#include "client-stub/shadow_pool.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/change_tracker.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class HostMemory;
class Session;
struct HostBlock;

// Copies what changed since `last` was the content of both. `last` becomes what both are now, unless somebody goes on writing.
void Reconcile(std::byte* host, std::byte* device, std::byte* last, size_t bytes);

class HostMirrors {
 public:
  HostMirrors(Session& session, HostMemory& memory, ShadowPool& pool);

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // The device address of `address`, which lies in `block`, memory that only this process has; makes the mirror if there is
  // none. Without shared pages the server is asked with a lock held that only this function takes.
  CUresult Open(Call& call, const HostBlock& block, uint64_t address, CUdeviceptr* device) EXCLUDES(mutex_, opening_mutex_);
  // Without shared pages: makes mirrors of the pinned memory that any eight bytes of `values` point to: the parameters of a
  // kernel, or a little memory that is copied to the device.
  CUresult OpenSeen(Call& call, std::span<const std::byte> values) EXCLUDES(mutex_, opening_mutex_);
  // Whether the server's driver may be given `address`, one on the device side of private memory; without shared pages that of
  // any pinned memory, whose mirror is made. The call has failed when that failed.
  bool Reach(Call& call, uint64_t address) EXCLUDES(mutex_, opening_mutex_);
  // The memory is being freed or unregistered and no work uses it: reconciles once more. The call's result is not this one's.
  void Close(Call& call, uint64_t base) EXCLUDES(mutex_);
  void EndContext(HandleId context) EXCLUDES(mutex_);

  // Nothing for an address that has no mirror, or is in none.
  std::optional<uint64_t> DeviceAddress(uint64_t host) const EXCLUDES(mutex_);
  std::optional<uint64_t> HostAddress(uint64_t device) const EXCLUDES(mutex_);

  // A stream, or what waited for one, is here: all of them, now. The application's memory is touched with the mirror's mutex
  // held, which nothing else waits for. Without shared pages the server has told by now, and nothing is left to do.
  void ReconcileAll() EXCLUDES(mutex_);
  // A stream goes on from here when this has returned: the server gets what this process has written. As ReconcileAll();
  // without shared pages it may wait for room in the ring of answers, so not in a notice handler.
  void ReconcileForStream() EXCLUDES(mutex_);

  // Told of work between two meetings.
  FlagWatch& flags() { return flags_; }

 private:
  struct Mirror {
    Range host;
    uint64_t device = 0;  // of host.base: at the same place in its page
    HandleId context;     // in which it was made
    HandleId owner;       // to which the memory belongs
    Shadow shadow;        // where pages are shared
    Mutex mutex;
    std::vector<std::byte> last GUARDED_BY(mutex);
  };
  CUresult OpenShared(Call& call, const HostBlock& block) EXCLUDES(mutex_);
  CUresult OpenFar(Call& call, const HostBlock& block) EXCLUDES(mutex_, opening_mutex_);
  // False, and nothing is done, when the memory has a mirror already.
  bool Insert(const std::shared_ptr<Mirror>& mirror) EXCLUDES(mutex_);
  std::shared_ptr<Mirror> Take(uint64_t base) EXCLUDES(mutex_);
  static void ReconcileOne(Mirror& mirror);
  void SendLoneChange();

  Session& session_;
  HostMemory& memory_;
  ShadowPool& pool_;
  ChangeTracker changes_;  // without shared pages
  std::atomic<size_t> count_{0};
  Mutex opening_mutex_;  // taken before mutex_
  uint32_t generation_ GUARDED_BY(opening_mutex_) = 0;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Mirror>> mirrors_ GUARDED_BY(mutex_);  // by base of the memory
  FlagWatch flags_;  // last: its thread uses the others
};

// Stands around the appending of work that may use mirrors, and enqueues a meeting before and after it. Nothing to do without
// mirrors, nor while the stream is captured (launches of the graph meet).
//
//   MirroredWork mirrored(call, stream);
//   if (mirrored.result() != CUDA_SUCCESS) return mirrored.result();
//   ... append; on failure return ...
//   if (const CUresult met = mirrored.Appended(); met != CUDA_SUCCESS) return met;
//
// Calling thread only.
class MirroredWork {
 public:
  MirroredWork(Call& call, HandleId stream);
  ~MirroredWork();  // unless Appended() was called, the work will not come
  MirroredWork(const MirroredWork&) = delete;
  MirroredWork& operator=(const MirroredWork&) = delete;

  // Not CUDA_SUCCESS: the call has failed with it and nothing may be appended.
  CUresult result() const { return result_; }
  // The meeting after the work. Once.
  CUresult Appended();

 private:
  Call& call_;
  const HandleId stream_;
  HostMirrors& mirrors_;
  bool watched_ = false;  // its end is to be told to the watch
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace tessera
