// Device pointers of host memory that only this process has: registered memory, and over a mirrored channel all pinned memory. A
// kernel gets a mirror of it.
//
// Where client and server share pages a mirror is pinned memory of the same size, at its own address. (The device attribute that
// promises equal addresses is filtered to 0.) Over a mirrored channel it is memory of the worker; a mirror of pinned memory has
// the program's address. Both sides tell each other what changed (protocol/memory/change_tracker.h).
//
// A mirror is made when a program asks for the memory's device pointer. Without shared pages it is also made when an address in
// the memory is seen: among the parameters of a kernel, in up to 32 KiB of ordinary memory that is copied to the device, or as
// the target of an operation on the device. A kernel that gets such an address in another way fails (700). If both sides change a
// byte, which natively is a race, the device's value stays (without shared pages: either).
//
// With shared pages, memory and mirror are reconciled whenever a stream meets this process, in stream order: before and after
// every launch of a kernel or graph, around host functions and the library's own visits, and when a call that waits for work
// returns. Bytes that differ from the last meeting were changed by one side, and are copied to the other.
//
// Without shared pages no stream waits for that. Every call that gives the device work first tells what this process wrote
// (Tell()). So it arrives before any work that natively would find it. The server tells what work wrote before anything that
// shows the program that the work is done, and soon after it is done in any case (server/worker/memory/mirror_watch.h). While
// work runs, either side tells changes only if they lie in one aligned word of eight bytes, a flag that somebody waits for
// (flag_watch.h): the order of more changes is not known. No other polling of such memory is supported, nor is cuStreamWaitValue
// on it.
//
// The cost of mirrors. With shared pages: three times the memory, and for each launch two visits of the host (some 20 us) and two
// passes over all mirrors (a third of a second per GiB). Without: twice the memory on each side, and passes over all mirrors:
// here for each call that gives the device work, there for each answer while work may run. Shared pinned memory costs none of
// that. Any thread.
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

// Copies what changed since both had the content `last`. `last` becomes their present content, unless somebody goes on writing.
void Reconcile(std::byte* host, std::byte* device, std::byte* last, size_t bytes);

class HostMirrors {
 public:
  HostMirrors(Session& session, HostMemory& memory, ShadowPool& pool, Deliveries& deliveries);

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // The device address of `address` in `block`, memory that only this process has. Makes the mirror if there is none. Without
  // shared pages it asks the server with a lock held that only this function takes.
  CUresult Open(BasicCall& call, const HostBlock& block, uint64_t address, CUdeviceptr* device) EXCLUDES(mutex_, opening_mutex_);
  // Without shared pages: makes mirrors of the pinned memory that any eight bytes of `values` point to: the parameters of a
  // kernel, or a little memory that is copied to the device.
  CUresult OpenSeen(BasicCall& call, std::span<const std::byte> values) EXCLUDES(mutex_, opening_mutex_);
  // Whether the server's driver may get `address`, on the device side of private memory. Without shared pages that is any pinned
  // memory, and its mirror is made here. If that fails the call has failed.
  bool Reach(BasicCall& call, uint64_t address) EXCLUDES(mutex_, opening_mutex_);
  // The memory is being freed or unregistered, and no work uses it: reconciles once more. Does not change the call's result.
  void Close(BasicCall& call, uint64_t base) EXCLUDES(mutex_);
  void EndContext(HandleId context) EXCLUDES(mutex_);
  // The process ends: when this returns, the memory of mirrors is not touched any more. Waits for no server.
  void EndAll() EXCLUDES(mutex_);

  // nullopt: the address has no mirror, or is in none.
  std::optional<uint64_t> DeviceAddress(uint64_t host) const EXCLUDES(mutex_);
  std::optional<uint64_t> HostAddress(uint64_t device) const EXCLUDES(mutex_);

  // Reconciles all mirrors now, since a stream, or a wait for one, has come here. It touches the application's memory with the
  // mirror's mutex held; nothing else waits for that mutex. Without shared pages the server has already told everything.
  void ReconcileAll() EXCLUDES(mutex_);
  // Gives the server what this process has written, before a stream goes on. With shared pages as ReconcileAll(). Without, it may
  // wait for room in the ring of answers, so do not call it in a notice handler.
  void ReconcileForStream() EXCLUDES(mutex_);

  // Without shared pages: records appended from now on find what this process has written until now. Call it before giving the
  // device work that uses mirrors, or that may let such work go on (a copy or set of a word that a stream waits for). Quick if
  // there are no mirrors. Not CUDA_SUCCESS: the call has failed.
  CUresult Tell(BasicCall& call) EXCLUDES(mutex_, order_mutex_);
  // Without shared pages: notes that the stream got work that may use mirrors.
  CUresult NoteUse(BasicCall& call, HandleId stream);

 private:
  struct Mirror {
    Range host;
    uint64_t device = 0;                 // of host.base, at the same offset in its page
    HandleId context;                    // in which it was made
    HandleId owner;                      // to which the memory belongs
    std::shared_ptr<HeldShadow> shadow;  // where pages are shared
    Mutex mutex;
    std::vector<std::byte> last GUARDED_BY(mutex);
  };
  CUresult OpenShared(BasicCall& call, const HostBlock& block) EXCLUDES(mutex_);
  CUresult OpenFar(BasicCall& call, const HostBlock& block) EXCLUDES(mutex_, opening_mutex_);
  // False, and nothing is done: the memory has a mirror already.
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
  uint64_t ordered_ GUARDED_BY(order_mutex_) = 0;  // how many of those a record in `commands` has named
  Mutex opening_mutex_;                            // taken before mutex_
  uint32_t generation_ GUARDED_BY(opening_mutex_) = 0;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Mirror>> mirrors_ GUARDED_BY(mutex_);  // by base of the memory
  FlagWatch flags_;                                                         // last: its thread uses the others
};

}  // namespace tessera
