// Memory of allocation nodes, in the session's ledger.
//
// The driver takes it when a graph is launched for the first time, or after a trim, and keeps it for later launches. So what the
// graph's nodes need beyond what is reserved and unused is counted before such a launch, and what is reserved
// (CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) after it. Where the device has no limit nothing is asked.
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

  // The session has made an allocation node: graphs are looked through from now on.
  void NoteNode() { any_.store(true, std::memory_order_relaxed); }
  // Whether it ever did.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // What follows has nothing to do while there is none.
  //
  // `exec` was made of `graph`, or is one of it now.
  void NoteInstance(CUgraphExec exec, CUgraph graph) EXCLUDES(mutex_);
  void ForgetInstance(CUgraphExec exec) EXCLUDES(mutex_);

  // The result of `launch`, which launches or uploads `exec`. CUDA_ERROR_OUT_OF_MEMORY, and it was not called, where the session
  // may not hold what the graph needs.
  CUresult Launch(CUgraphExec exec, const std::function<CUresult()>& launch) EXCLUDES(mutex_);
  // Likewise of `upload`, which makes an instance of `graph` and uploads it at once.
  CUresult Upload(CUgraph graph, const std::function<CUresult()>& upload) EXCLUDES(mutex_);
  // Counts what the driver has reserved by now.
  void Measure(CUdevice device) EXCLUDES(mutex_);
  // Has the driver give back what no graph uses. Whether it did.
  bool Trim(CUdevice device) EXCLUDES(mutex_);

 private:
  using Needs = std::map<CUdevice, uint64_t>;  // bytes
  struct Instance {
    Needs needs;
    bool has_all = false;  // since it was launched, and nothing was given back
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
  std::map<CUgraphExec, Instance> instances_ GUARDED_BY(mutex_);  // those that allocate
  Needs counted_ GUARDED_BY(mutex_);
};

}  // namespace tessera
