// Copy nodes with an end in memory that only the client has (HostCopyNodeRecord, protocol/wire/graph_params.h).
//
// To the driver such a node is a child graph: a host function that asks the client to fill the shadow and then a copy from
// it, or a copy to the shadow and then a host function that empties it. So the memory is read and written when the node
// runs, whoever launches it and however often, launches of one instance keep apart as the driver keeps them apart, and
// clones and instances take everything along. The graph around it has the nodes and edges that the application gave it; what
// the driver calls a child graph is called a copy again wherever the application asks (the functions below tell). The
// record is kept with the host function, so nothing has to be remembered here. Executor and helper threads.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <span>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/graph_params.h"
#include "server/worker/call_context.h"

namespace tessera {

// Whether encoded parameters are those of such a node, and not of a copy that the driver can do by itself.
bool IsHostCopy(std::span<const std::byte> params);

// True when a node of the driver is one of these; `record` (may be null) is what it was made from.
bool IsHostCopyNode(CallContext& call, CUgraphNode node, HostCopyNodeRecord* record = nullptr);

// One of these nodes in a graph or one embedded in it, of ordinary memory if there is one; null: there is none.
CUgraphNode FindHostCopy(CallContext& call, CUgraph graph, HostCopyNodeRecord* record);

// Adds a node. False when the call has ended with an error.
bool AddHostCopyNode(CallContext& call, CUgraph graph, const std::vector<CUgraphNode>& dependencies,
                     std::span<const std::byte> params, CUgraphNode* node);

// What instantiated graphs copy of ordinary memory. (Driver 580 on an H200: a launch reads such
// sources before it returns, whatever is in front of it in the stream, and returns when such destinations are written.) Any
// thread.
class HostCopyInstances {
 public:
  struct Copy {
    CUgraphNode node = nullptr;  // of the graph that the instance was made from
    uint64_t function = 0;
    bool reads = false;   // ordinary memory
    bool writes = false;  // ordinary memory
    bool nested = false;  // in an embedded graph: the instance's node cannot be changed
  };
  struct Instance {
    std::vector<Copy> copies;
    bool unsure = false;  // it may have others: launches wait
  };

  // A node that copies ordinary memory was made: before that nothing else is worth asking.
  void NoteNode() { any_.store(true, std::memory_order_release); }
  bool any() const { return any_.load(std::memory_order_acquire); }
  void Set(CUgraphExec exec, Instance instance) EXCLUDES(mutex_);
  Instance Get(CUgraphExec exec) const EXCLUDES(mutex_);
  // Whether launches are answered when they are done.
  bool Waits(CUgraphExec exec) const EXCLUDES(mutex_);

 private:
  std::atomic<bool> any_{false};
  mutable Mutex mutex_;
  std::map<CUgraphExec, Instance> instances_ GUARDED_BY(mutex_);
};

// `exec` was made from `graph`, or took everything over from it; or, for an embedded graph, a part.
void NoteInstance(CallContext& call, CUgraphExec exec, CUgraph graph);
void NotePart(CallContext& call, CUgraphExec exec, CUgraph graph);

// Gives a node of a graph, or of an instantiated one, other parameters; ends the call. A node that was no such copy cannot
// become one, nor the other way round, nor can the client's end change sides: CUDA_ERROR_NOT_SUPPORTED.
void SetHostCopyNode(CallContext& call, CUgraphNode node, std::span<const std::byte> params);
void SetExecHostCopyNode(CallContext& call, CUgraphExec exec, CUgraphNode node, std::span<const std::byte> params);

}  // namespace tessera
