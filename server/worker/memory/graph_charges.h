// Counts the memory of graphs' allocation nodes in the session's ledger.
//
// The driver takes this memory when a graph is launched for the first time, or after a trim, and keeps it for later launches. So
// before such a launch this counts what the graph's nodes need beyond what is reserved and unused. After the launch it counts
// what is reserved (CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT). Where the device has no limit the driver is not asked.
// Source: CUDA Driver API, cuDeviceGetGraphMemAttribute; CUDA C++ Programming Guide, "Graph Memory Nodes".
//
// Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>

#include "protocol/base/mutex.h"
#include "server/worker/memory/memory_ledger.h"

namespace tessera {

class GraphCharges {
 public:
  // Both outlive it.
  GraphCharges(const DriverTable& driver, MemoryLedger& ledger) : driver_(driver), ledger_(ledger) {}

  // Notes that the session has made an allocation node. From now on this looks through graphs.
  void NoteNode() { any_.store(true, std::memory_order_relaxed); }
  // Whether the session ever made one. Until then the functions below have nothing to do.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Notes that `exec` was instantiated from `graph`, or was updated to match it.
  void NoteInstance(CUgraphExec exec, CUgraph graph) EXCLUDES(mutex_);
  void ForgetInstance(CUgraphExec exec) EXCLUDES(mutex_);

  // Returns the result of `launch`, which launches or uploads `exec`. CUDA_ERROR_OUT_OF_MEMORY: the session may not hold what the
  // graph needs, and `launch` was not called.
  CUresult Launch(CUgraphExec exec, const std::function<CUresult()>& launch) EXCLUDES(mutex_);
  // The same for `upload`, which makes an instance of `graph` and uploads it at once.
  CUresult Upload(CUgraph graph, const std::function<CUresult()>& upload) EXCLUDES(mutex_);
  // Counts what the driver has reserved by now.
  void Measure(CUdevice device) EXCLUDES(mutex_);
  // Makes the driver give back what no graph uses. True: some memory became free.
  bool Trim(CUdevice device) EXCLUDES(mutex_);

 private:
  using Needs = std::map<CUdevice, uint64_t>;  // bytes
  struct Instance {
    Needs needs;
    bool has_all = false;  // it was launched, and the driver has given nothing back since
  };

  void AddNeeds(CUgraph graph, Needs* needs) const;
  uint64_t Attribute(CUdevice device, CUgraphMem_attribute attribute) const;
  bool TakeFor(const Needs& needs, Needs* taken) REQUIRES(mutex_);
  CUresult Run(const Needs& needs, const std::function<CUresult()>& work) REQUIRES(mutex_);
  void MeasureOne(CUdevice device) REQUIRES(mutex_);

  const DriverTable& driver_;
  MemoryLedger& ledger_;
  std::atomic<bool> any_{false};
  Mutex mutex_;
  std::map<CUgraphExec, Instance> instances_ GUARDED_BY(mutex_);  // those with allocation nodes
  Needs counted_ GUARDED_BY(mutex_);
};

}  // namespace tessera
