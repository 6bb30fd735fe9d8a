#include "client-stub/graphs/graph_memory.h"

#include "client-stub/call/call.h"
#include "client-stub/graphs/graphs_seen.h"
#include "client-stub/memory/client_memory.h"
#include "protocol/base/log.h"

namespace tessera {

bool AnyGraphMemory() { return GraphsSeen::Process().memory.load(std::memory_order_relaxed); }

void NoteGraphMemory() { GraphsSeen::Process().memory.store(true, std::memory_order_relaxed); }

bool AdoptGraphMemory(Call& call, uint64_t address, uint64_t bytes, const CUmemPoolProps& properties) {
  NoteGraphMemory();
  DeviceAllocation allocation;
  allocation.range = Range{address, bytes};
  allocation.kind = DeviceAllocation::Kind::kGraph;
  allocation.device = properties.location.id;
  allocation.sync_memops = false;  // measured
  if (AdoptDriverRange(call.session(), allocation)) return true;
  // The node cannot be removed again: no node can be destroyed in a graph with allocation nodes.
  LogWarning("{}: the driver placed graph memory at {:#x}, where this process has memory of its own; build the graph anew",
             call.info().name, address);
  return false;
}

}  // namespace tessera
