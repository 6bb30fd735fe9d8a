// The memory of one session on the server. It owns the parts below, and knows when freed memory may be used again and which
// memory a client may reach.
//
//   SessionMemory& memory = worker.parts().memory();
//
// Any thread, except where a line says otherwise.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "protocol/base/mutex.h"
#include "server/worker/memory/charges.h"
#include "server/worker/memory/device_heap.h"
#include "server/worker/memory/host_mappings.h"
#include "server/worker/memory/host_segments.h"
#include "server/worker/memory/reserved_ranges.h"
#include "server/worker/memory/worker_deliveries.h"
#include "server/worker/memory/worker_mirrors.h"

namespace tessera {

class Worker;

class SessionMemory {
 public:
  explicit SessionMemory(Worker& worker);

  Charges& charges() { return charges_; }
  DeviceHeap& heap() { return heap_; }
  ReservedRanges& reserved() { return reserved_; }
  HostSegments& host() { return host_; }
  HostMappings& host_mappings() { return host_mappings_; }
  WorkerMirrors& mirrors() { return mirrors_; }
  WorkerDeliveries& deliveries() { return deliveries_; }

  // Runs `action` on a helper thread when all work that was enqueued until now in the session's contexts is done. `idle`: the
  // work is done and `result` is CUDA_SUCCESS, or the contexts have failed, do no more work, and `result` is their error. Not
  // `idle`: nothing is known, and `result` is CUDA_SUCCESS. This happens while a stream captures, since asking the driver would
  // invalidate the capture. Then postpone what needs idle contexts. If no helper thread takes the work, `action` runs at once on
  // the calling thread, not `idle`.
  void AfterAllWork(std::function<void(bool idle, CUresult result)> action);
  // True: no work of the session's contexts is left, and none comes while the executor asks. False while a stream captures, since
  // the driver must not be asked then. Executor thread; changes its current context.
  bool AllWorkIsDone();
  // Keeps `reclaim` and runs it when a later AfterAllWork finds the session idle.
  void Postpone(std::function<void()> reclaim) EXCLUDES(mutex_);
  // Runs what was postponed if the session is idle. Waits for nothing. Executor thread; may change its current context.
  void ReclaimIfIdle() EXCLUDES(mutex_);

  // Memory that the driver placed itself (stream-ordered allocations), by address. Only noted addresses may be passed to the
  // driver's free. ForgetDriverMemory: false if `address` is not noted.
  void NoteDriverMemory(uint64_t address) EXCLUDES(mutex_);
  bool ForgetDriverMemory(uint64_t address) EXCLUDES(mutex_);

  // Notes the memory of a graph's allocation node. It stays known as long as the session, since the graph may be launched and its
  // memory freed again and again.
  void NoteGraphMemory(const Range& range) EXCLUDES(mutex_);
  // True: the memory of an allocation node begins at `address`.
  bool IsGraphMemory(uint64_t address) EXCLUDES(mutex_);

  // True: the driver may be given [address, address + bytes) as memory that a copy reads or writes. This is the device window,
  // reserved ranges, attached host segments, mirrors, memory of allocation nodes, and what the driver says is device memory of
  // its own. The client may not reach other memory of this process.
  bool MayCopy(uint64_t address, uint64_t bytes);
  // As MayCopy, for calls in which the driver looks at no address, or looks at it only later (textures, captured memsets). Also
  // true of addresses where the driver knows no memory.
  bool MayName(uint64_t address, uint64_t bytes);
  // True: [address, address + bytes) is host memory that the driver reaches at that address. This is an attached segment, a
  // mirror, or a mapping of the program's own host memory.
  bool IsHost(uint64_t address, uint64_t bytes);
  // Returns the driver's own allocation that contains `address`: a variable, memory of a pool, or a mapping of the application's.
  // Returns nothing for other addresses, also those of the heap.
  std::optional<Range> DriverAllocationAt(uint64_t address);

  // Call this before the driver destroys or resets the context, when all its work is done and it is current. Its device memory is
  // freed and its host memory is unregistered.
  void EndContext(uint64_t context);

 private:
  CUresult WaitForAllWork();
  bool AnyStreamCaptures();

  Worker& worker_;
  const Range device_window_;
  Charges charges_;
  DeviceHeap heap_;
  ReservedRanges reserved_;
  HostSegments host_;
  HostMappings host_mappings_;
  WorkerDeliveries deliveries_;
  WorkerMirrors mirrors_;
  Mutex mutex_;
  std::vector<std::function<void()>> postponed_ GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> graph_memory_ GUARDED_BY(mutex_);  // base, bytes
  std::set<uint64_t> driver_memory_ GUARDED_BY(mutex_);
};

}  // namespace tessera
