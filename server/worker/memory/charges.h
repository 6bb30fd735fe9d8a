// All that a session holds of the GPUs' memory, kind by kind, counted in one ledger. A part of SessionMemory.
//
//   Charges& charges = worker.parts().memory().charges();
//
// | Memory | Where it is counted |
// | --- | --- |
// | blocks of cuMemAlloc, and what the heap caches | device_chunks.h, with the ledger |
// | cuMemCreate, imports | physical() |
// | memory pools | pools() |
// | allocation nodes of graphs | graphs() |
// | heap, printf buffer, stacks and local memory of contexts | limits(); needs() says what graphs add to them |
// | arrays, variables of modules and libraries | objects(), as long as their handle lives |
// | contexts beside another one of the session | the ledger, as long as they live |
//
// Memory that outlives its handle, or its call, is counted on: held_memory.md has each such call. A handle that a client uses
// again for another object, without having freed the first, gives nothing back. The first context (with the local memory that it
// begins with), code and queues are not the program's, and are not counted. Any thread.
#pragma once

#include <cuda.h>

#include "protocol/wire/handle.h"
#include "server/worker/memory/graph_charges.h"
#include "server/worker/memory/graph_needs.h"
#include "server/worker/memory/held_memory.h"
#include "server/worker/memory/limit_charges.h"
#include "server/worker/memory/memory_ledger.h"
#include "server/worker/memory/physical_memory.h"
#include "server/worker/memory/pool_charges.h"

namespace tessera {

class Worker;

class Charges {
 public:
  // Listens to the worker's table of objects, so that what an object held is given back when its handle is removed.
  explicit Charges(Worker& worker);
  Charges(const Charges&) = delete;
  Charges& operator=(const Charges&) = delete;

  MemoryLedger& ledger() { return ledger_; }
  PhysicalMemory& physical() { return physical_; }
  PoolCharges& pools() { return pools_; }
  GraphCharges& graphs() { return graphs_; }
  LimitCharges& limits() { return limits_; }
  GraphNeeds& needs() { return needs_; }
  HeldObjects& objects() { return objects_; }

  // Counts what pools and graphs have reserved by now, since they also give memory back by themselves. Does nothing where the
  // device has no limit.
  void Measure(CUdevice device);
  // Makes pools and graphs give back what they do not use. True: some memory became free. Does nothing where the device has no
  // limit.
  bool Trim(CUdevice device);

 private:
  // The handle names something else now, and its object was not freed: what it holds stays counted.
  void Lose(HandleId id, uint64_t object);

  MemoryLedger ledger_;
  PhysicalMemory physical_;
  PoolCharges pools_;
  GraphCharges graphs_;
  LimitCharges limits_;
  GraphNeeds needs_;
  HeldObjects objects_;
};

}  // namespace tessera
