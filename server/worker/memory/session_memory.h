// The memory of one session on the server: device heap, host segments, and when freed memory may be used again.
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
#include "server/worker/memory/deliveries.h"
#include "server/worker/memory/device_heap.h"
#include "server/worker/memory/host_mappings.h"
#include "server/worker/memory/host_mirrors.h"
#include "server/worker/memory/host_segments.h"
#include "server/worker/memory/reserved_ranges.h"

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
  HostMirrors& mirrors() { return mirrors_; }
  Deliveries& deliveries() { return deliveries_; }

  // Runs `action` on a helper thread when all work that was enqueued until now in the session's contexts is done.
  // `idle`: it is done (`result` is CUDA_SUCCESS), or the contexts have failed and do no more work (`result` says how).
  // Not `idle`: nothing is known. The driver must not be asked while a stream captures (it would invalidate the
  // capture); `result` is CUDA_SUCCESS then, and what waits for idleness has to be postponed.
  void AfterAllWork(std::function<void(bool idle, CUresult result)> action);
  // Whether no work of the session's contexts is left. While it is the executor that asks, none comes. False if a stream
  // captures: the driver must not be asked then. The executor thread; what is current there changes.
  bool AllWorkIsDone();
  // `reclaim` runs when a later AfterAllWork finds the session idle.
  void Postpone(std::function<void()> reclaim) EXCLUDES(mutex_);

  // Memory that the driver placed by itself (stream-ordered allocations), by address: what may be passed to its free.
  void NoteDriverMemory(uint64_t address) EXCLUDES(mutex_);
  bool ForgetDriverMemory(uint64_t address) EXCLUDES(mutex_);

  // Memory of an allocation node. It stays known as long as the session: the graph may be launched, and its memory
  // freed, again and again.
  void NoteGraphMemory(const Range& range) EXCLUDES(mutex_);
  // Whether an allocation node's memory begins there.
  bool IsGraphMemory(uint64_t address) EXCLUDES(mutex_);

  // True when the driver may be given [address, address + bytes) as memory that a copy reads or writes: the device
  // window, reserved ranges, attached host segments, mirrors, and what the driver says is device memory of its own.
  // Other memory of this process is not the client's to reach.
  bool MayCopy(uint64_t address, uint64_t bytes);
  // As above where the driver looks at no address, or later (textures, captured sets): also addresses where it knows no memory.
  bool MayName(uint64_t address, uint64_t bytes);
  // Whether [address, address + bytes) is memory of the host that the driver reaches at that address: an attached segment, a
  // mirror or a mapping of the program's own.
  bool IsHost(uint64_t address, uint64_t bytes);
  // The allocation of the driver's own (a variable, a pool's, a mapping of the application's) that contains `address`.
  // Nothing for other addresses and for what is no block of the heap any more.
  std::optional<Range> DriverAllocationAt(uint64_t address);

  // The context is about to be destroyed or reset, all its work is done, and it is current: its device memory is freed
  // and its host memory is unregistered. Before the driver's call.
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
  Deliveries deliveries_;
  HostMirrors mirrors_;
  Mutex mutex_;
  std::vector<std::function<void()>> postponed_ GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> graph_memory_ GUARDED_BY(mutex_);  // base, bytes
  std::set<uint64_t> driver_memory_ GUARDED_BY(mutex_);
};

}  // namespace tessera
