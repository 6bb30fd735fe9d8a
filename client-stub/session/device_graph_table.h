// Device graphs: executable graphs that kernels launch (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH).
//
// A kernel passes the graph's handle to the driver's own code on the device. So the application's handle of such a graph is the
// driver's value. It is an address on the device, and may look like the id of any other object (HandleId) of any session. This
// table has the id behind each value. Only the id travels between client and server, so the server takes no value that it did not
// give. (A node that kernels change has such a handle too, but no call of the host takes it.)
//
// The driver gives a value again as soon as its graph is destroyed (measured: driver 580). Two drivers may give the same value:
// the second graph is refused, since a call that named it could mean either.
// One table for the process. Any thread; no lock while there are no device graphs.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

class DeviceGraphs {
 public:
  static DeviceGraphs& Process() { return PartOfProcess<DeviceGraphs>::Get(); }

  // The id of what the application passed as an executable graph. For anything but a device graph it is the value itself.
  HandleId IdOf(uint64_t value) const { return count_.load(std::memory_order_acquire) == 0 ? HandleId(value) : Find(value); }
  HandleId IdOf(CUgraphExec handle) const { return IdOf(reinterpret_cast<uint64_t>(handle)); }
  bool Has(uint64_t value) const { return IdOf(value) != HandleId(value); }
  bool Has(CUgraphExec handle) const { return Has(reinterpret_cast<uint64_t>(handle)); }

  // A session's driver gave `value` to the graph `exec`, made in `context`. What that session had under this value is gone.
  // False, and nothing changes: the value is the handle of another graph, be it a device graph of another session or the id of an
  // executable graph.
  bool Add(uint64_t value, HandleId exec, HandleId context) EXCLUDES(mutex_);
  // The process has a node that kernels change. An instance with such a node is destroyed like a device graph, but the table does
  // not know which instances have one.
  void NoteDeviceNode() { device_nodes_.store(true, std::memory_order_relaxed); }
  // Whether the driver may wait when this executable graph is destroyed.
  bool WaitsToEnd(CUgraphExec handle) const { return device_nodes_.load(std::memory_order_relaxed) || Has(handle); }
  // The graph ends. Does nothing if the value belongs to another graph by now.
  void Remove(uint64_t value, HandleId exec) EXCLUDES(mutex_);
  // A context has ended: its graphs too.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Graph {
    HandleId exec;
    HandleId context;  // with which it ends
  };
  HandleId Find(uint64_t value) const EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Graph> graphs_ GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};
  std::atomic<bool> device_nodes_{false};
};

}  // namespace tessera
