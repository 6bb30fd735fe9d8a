// What the calls that add nodes and change their parameters have in common.
#pragma once

#include <cuda.h>

#include <vector>

#include "server/worker/call_context.h"
#include "server/worker/graphs/graph_handles.h"

namespace tessera {

// Where a new node goes. The call has ended when PreparePlace() is false.
struct NodePlace {
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> dependencies;
};

template <typename Request>
bool PreparePlace(CallContext& call, const Request& request, NodePlace* place) {
  place->graph = call.Use<CUgraph>(request.graph);
  place->dependencies = UseNodes(call, request.dependencies);
  if (call.ok()) return true;
  call.Finish(call.error());
  return false;
}

template <typename Reply, typename Request>
void FinishAdd(CallContext& call, const Request& request, CUresult result, CUgraphNode node, const Reply& reply = {}) {
  if (result == CUDA_SUCCESS) call.New(request.node, node);
  call.Finish(result, reply);
}

// Ends a call whose parameters could not be decoded, unless decoding has ended it.
inline void FinishUndecoded(CallContext& call) {
  if (!call.ok()) call.Finish(call.error());
}

// Answers with a node's parameters as `encode(call, node, &bytes)` gives them.
template <typename Reply, typename Request, typename Encode>
void GetNode(CallContext& call, const Request& request, Encode encode) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  std::vector<std::byte> params;
  const CUresult result = encode(call, node, &params);
  Reply reply;
  reply.params = params;
  call.Finish(result, reply);
}

}  // namespace tessera
