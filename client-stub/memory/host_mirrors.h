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
// Of bytes that both sides changed, which is a race natively, the device's value stays (without shared pages: either).
//
// Where pages are shared the two are reconciled wherever a stream meets this process, in stream order: before and after every
// launch of a kernel or graph, around host functions and the library's own visits, and when a call that waits for work returns:
// bytes that differ from what both had at the last meeting were changed by one side and are copied to the other.
//
// Without shared pages no stream waits for that. What this process wrote is told with every call that gives the device work
// (Tell), before it; so it is there before any work that natively would find it, and not before it was written. What work wrote
// is told by the server before it tells anything else from which the program could know that the work is done, and soon after
// it is done in any case (server/worker/memory/mirror_watch.h). While work runs, either side tells the other of what changed as
// long as all of it lies in one aligned word of eight bytes, a flag that somebody waits for (flag_watch.h). More could not be
// told in the order in which it was written. Any other polling of such memory is not supported, nor is cuStreamWaitValue on it.
//
// Cost, while there are mirrors. Shared pages: three times the memory, and per launch two visits of the host (some 20 us) and two
// passes over all mirrors (a third of a second per GiB). Otherwise twice the memory on each side, and a pass over all mirrors per
// call that gives the device work, here, and per answer while work is not known to be done, there. Pinned memory that is shared
// has none of that. Any thread.
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

#include "client-stub/memory/flag_watch.h"
#include "client-stub/memory/shadow_pool.h"
#include "client-stub/session/basic_call.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/change_tracker.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class HostMemory;
class Deliveries;  // deliveries.h
class Session;
struct HostBlock;

// Copies what changed since `last` was the content of both. `last` becomes what both are now, unless somebody goes on writing.
void Reconcile(std::byte* host, std::byte* device, std::byte* last, size_t bytes);

class HostMirrors {
 public:
  HostMirrors(Session& session, HostMemory& memory, ShadowPool& pool, Deliveries& deliveries);

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // The device address of `address`, which lies in `block`, memory that only this process has; makes the mirror if there is
  // none. Without shared pages the server is asked with a lock held that only this function takes.
  CUresult Open(BasicCall& call, const HostBlock& block, uint64_t address, CUdeviceptr* device) EXCLUDES(mutex_, opening_mutex_);
  // Without shared pages: makes mirrors of the pinned memory that any eight bytes of `values` point to: the parameters of a
  // kernel, or a little memory that is copied to the device.
  CUresult OpenSeen(BasicCall& call, std::span<const std::byte> values) EXCLUDES(mutex_, opening_mutex_);
  // Whether the server's driver may be given `address`, one on the device side of private memory; without shared pages that of
  // any pinned memory, whose mirror is made. The call has failed when that failed.
  bool Reach(BasicCall& call, uint64_t address) EXCLUDES(mutex_, opening_mutex_);
  // The memory is being freed or unregistered and no work uses it: reconciles once more. The call's result is not this one's.
  void Close(BasicCall& call, uint64_t base) EXCLUDES(mutex_);
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

  // Without shared pages: records that are appended from now on find what this process has written until now. To be called by
  // what gives the device work that uses mirrors, or that may let such work go on (a copy or set of a word that a stream waits
  // for). Nothing to do, and quick, without mirrors. The call has failed when this is not CUDA_SUCCESS.
  CUresult Tell(BasicCall& call) EXCLUDES(mutex_, order_mutex_);
  // Without shared pages: the stream was given work that may use mirrors.
  CUresult NoteUse(BasicCall& call, HandleId stream);

 private:
  struct Mirror {
    Range host;
    uint64_t device = 0;                 // of host.base: at the same place in its page
    HandleId context;                    // in which it was made
    HandleId owner;                      // to which the memory belongs
    std::shared_ptr<HeldShadow> shadow;  // where pages are shared
    Mutex mutex;
    std::vector<std::byte> last GUARDED_BY(mutex);
  };
  CUresult OpenShared(BasicCall& call, const HostBlock& block) EXCLUDES(mutex_);
  CUresult OpenFar(BasicCall& call, const HostBlock& block) EXCLUDES(mutex_, opening_mutex_);
  // False, and nothing is done, when the memory has a mirror already.
  bool Insert(const std::shared_ptr<Mirror>& mirror) EXCLUDES(mutex_);
  std::shared_ptr<Mirror> Take(uint64_t base) EXCLUDES(mutex_);
  static void ReconcileOne(Mirror& mirror);
  void SendLoneChange();
  bool Send(std::span<const std::byte> changes);

  Session& session_;
  HostMemory& memory_;
  ShadowPool& pool_;
  Deliveries& deliveries_;
  ChangeTracker changes_;  // without shared pages
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> told_{0};  // messages of changes
  Mutex order_mutex_;
  uint64_t ordered_ GUARDED_BY(order_mutex_) = 0;  // of those, what a record in `commands` has named
  Mutex opening_mutex_;                            // taken before mutex_
  uint32_t generation_ GUARDED_BY(opening_mutex_) = 0;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Mirror>> mirrors_ GUARDED_BY(mutex_);  // by base of the memory
  FlagWatch flags_;                                                         // last: its thread uses the others
};

}  // namespace tessera
