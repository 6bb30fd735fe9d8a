// Graph nodes of any kind through the driver's one struct.

#include <vector>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/graphs/any_node_params.h"
#include "server/worker/graphs/host_copy_node.h"
#include "server/worker/graphs/kernel_needs.h"
#include "server/worker/graphs/node_calls.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// What the driver wrote into the parameters of a new node.
template <typename Reply>
void StoreOutputs(CallContext& call, CUgraphNode node, const CUgraphNodeParams& params, Reply* reply) {
  if (params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    reply->dptr = params.alloc.dptr;
    const size_t bytes = params.alloc.bytesize;
    call.worker().parts().memory().NoteGraphMemory(Range{reply->dptr, bytes});
  }
  if (params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && params.conditional.phGraph_out != nullptr) {
    const std::vector<CUgraph> bodies(params.conditional.phGraph_out, params.conditional.phGraph_out + params.conditional.size);
    HandleId* ids = reply->bodies.Allocate(bodies.size());
    for (size_t i = 0; i < bodies.size(); ++i) ids[i] = call.Known(HandleKind::kGraph, bodies[i]);
    call.worker().parts().conditional_bodies().Add(node, bodies);
  }
}

CUresult AddNode(CallContext& call, const NodePlace& place, std::span<const CUgraphEdgeData> edges, CUgraphNodeParams* params,
                 CUgraphNode* node) {
  const DriverTable& driver = call.driver();
  if (!edges.empty()) {
    if (driver.cuGraphAddNode_v2 == nullptr) return MissingEntry("cuGraphAddNode_v2");
    return driver.cuGraphAddNode_v2(node, place.graph, place.dependencies.data(), edges.data(), edges.size(), params);
  }
  if (driver.cuGraphAddNode == nullptr) return MissingEntry("cuGraphAddNode");
  return driver.cuGraphAddNode(node, place.graph, place.dependencies.data(), place.dependencies.size(), params);
}

template <typename Reply, typename Request>
void Add(CallContext& call, const Request& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  if (!request.edges.empty() && request.edges.size() != place.dependencies.size()) return call.Malformed();
  CUgraphNode node = nullptr;
  Reply reply;
  if (request.type == CU_GRAPH_NODE_TYPE_MEMCPY && IsHostCopy(request.params)) {
    // No edge but a plain one leads to a copy.
    for (const CUgraphEdgeData& edge : request.edges) {
      if (edge.from_port != 0 || edge.to_port != 0 || edge.type != 0) return call.Finish(CUDA_ERROR_INVALID_VALUE);
    }
    if (!AddHostCopyNode(call, place.graph, place.dependencies, request.params, &node)) return;
    return FinishAdd(call, request, CUDA_SUCCESS, node, reply);
  }
  AnyNodeParams params;
  if (!params.Decode(call, request.type, request.params)) return FinishUndecoded(call);
  const CUresult result = AddNode(call, place, request.edges, &params.get(), &node);
  if (result == CUDA_SUCCESS) StoreOutputs(call, node, params.get(), &reply);
  FinishAdd(call, request, result, node, reply);
}

}  // namespace

void Do_cuGraphAddNode(CallContext& call, const cuGraphAddNodeRequest& request) { Add<cuGraphAddNodeReply>(call, request); }

void Do_cuGraphAddNode_v2(CallContext& call, const cuGraphAddNode_v2Request& request) {
  Add<cuGraphAddNode_v2Reply>(call, request);
}

void Do_cuGraphNodeSetParams(CallContext& call, const cuGraphNodeSetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (request.type == CU_GRAPH_NODE_TYPE_MEMCPY && (IsHostCopy(request.params) || IsHostCopyNode(call, node))) {
    return SetHostCopyNode(call, node, request.params);
  }
  AnyNodeParams params;
  if (!params.Decode(call, request.type, request.params)) return FinishUndecoded(call);
  if (call.driver().cuGraphNodeSetParams == nullptr) return call.Finish(MissingEntry("cuGraphNodeSetParams"));
  call.Finish(call.driver().cuGraphNodeSetParams(node, &params.get()));
}

void Do_cuGraphExecNodeSetParams(CallContext& call, const cuGraphExecNodeSetParamsRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  const bool is_host_copy = IsHostCopyNode(call, node);
  if (request.type == CU_GRAPH_NODE_TYPE_MEMCPY && (IsHostCopy(request.params) || is_host_copy)) {
    return SetExecHostCopyNode(call, exec, node, request.params);
  }
  AnyNodeParams params;
  if (!params.Decode(call, request.type, request.params)) return FinishUndecoded(call);
  if (is_host_copy) return call.Finish(CUDA_ERROR_INVALID_VALUE);  // a copy, to the application
  if (call.driver().cuGraphExecNodeSetParams == nullptr) return call.Finish(MissingEntry("cuGraphExecNodeSetParams"));
  LocalNeeds needs;
  if (request.type == CU_GRAPH_NODE_TYPE_KERNEL) needs = NeedsOfKernel(call, params.kernel());
  if (request.type == CU_GRAPH_NODE_TYPE_GRAPH) needs = NeedsOfGraph(call, params.get().graph.graph);
  const CUresult result =
      WithLocalMemory(call, needs, [&] { return call.driver().cuGraphExecNodeSetParams(exec, node, &params.get()); });
  if (result == CUDA_SUCCESS) call.worker().parts().memory().charges().needs().Add(exec, needs);
  if (result == CUDA_SUCCESS && request.type == CU_GRAPH_NODE_TYPE_GRAPH) NotePart(call, exec, params.get().graph.graph);
  call.Finish(result);
}

}  // namespace tessera
