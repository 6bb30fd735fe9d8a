// Handles of graphs and their nodes. Nodes end with their graph, so their handles do: a handle whose node the driver has
// freed must never reach the driver again.
#pragma once

#include <cuda.h>

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/runtime/array.h"
#include "server/worker/call_context.h"

namespace tessera {

// The driver's nodes behind handles; fails the call for an unknown one.
std::vector<CUgraphNode> UseNodes(CallContext& call, const Array<HandleId>& ids);
// The handles of nodes the driver named.
void KnownNodes(CallContext& call, const std::vector<CUgraphNode>& nodes, Array<HandleId>* ids);

// All nodes of a graph, or its roots.
CUresult ListNodes(CallContext& call, CUgraph graph, bool roots, std::vector<CUgraphNode>* nodes);

// Destroys a graph with its nodes and embedded graphs; their handles are removed and returned in `freed` (may be null).
CUresult DestroyGraph(CallContext& call, CUgraph graph, HandleId id, std::vector<HandleId>* freed);

// Destroys one node, with the graphs embedded in it; their handles and those of their nodes are removed and returned.
CUresult DestroyNode(CallContext& call, CUgraphNode node, HandleId id, std::vector<HandleId>* freed);

// The bodies of conditional nodes, which the driver tells only when it makes the node.
class ConditionalBodies {
 public:
  void Add(CUgraphNode node, std::vector<CUgraph> bodies) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    bodies_[node] = std::move(bodies);
  }
  // None for other nodes. (Those of a node that has ended stay until the driver makes another one at its address.)
  std::vector<CUgraph> Of(CUgraphNode node) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = bodies_.find(node);
    return found == bodies_.end() ? std::vector<CUgraph>() : found->second;
  }

 private:
  Mutex mutex_;
  std::unordered_map<CUgraphNode, std::vector<CUgraph>> bodies_ GUARDED_BY(mutex_);
};

// Graphs of the application into which streams capture (cuStreamBeginCaptureToGraph). They outlive
// a capture that failed; other captured graphs go with it.
class CaptureTargets {
 public:
  void Begin(CUgraph graph) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    graphs_.insert(graph);
  }
  // True when it was one.
  bool End(CUgraph graph) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) return false;
    graphs_.erase(found);
    return true;
  }

 private:
  Mutex mutex_;
  std::multiset<CUgraph> graphs_ GUARDED_BY(mutex_);
};

}  // namespace tessera
