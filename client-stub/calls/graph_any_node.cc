// Graph nodes of any kind through one struct, CUgraphNodeParams.

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_memory.h"
#include "client-stub/graphs/graph_node_calls.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "generated/client_custom.h"

namespace tessera {
namespace {

// What the driver writes into the struct: the address of an allocation, the bodies of a conditional node.
template <typename Reply>
CUresult StoreOutputs(Call& call, HandleId node, const Reply& reply, CUgraphNodeParams* params) {
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    const CUDA_MEM_ALLOC_NODE_PARAMS_v2& alloc = params->alloc;
    if (!AdoptGraphMemory(call, reply.dptr, alloc.bytesize, alloc.poolProps)) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
    params->alloc.dptr = reply.dptr;
  }
  if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_SUCCESS;
  if (reply.bodies.size() != params->conditional.size) return call.MalformedReply();
  std::vector<CUgraph> bodies;
  for (HandleId body : reply.bodies) {
    call.Adopt(body);
    bodies.push_back(ToObject<CUgraph>(body));
  }
  params->conditional.phGraph_out = NodeParametersOfProcess().KeepArray<CUgraph>(node, bodies);
  return CUDA_SUCCESS;
}

template <typename Request, typename Reply>
CUresult AddAny(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                size_t count, CUgraphNodeParams* params) {
  Request request;
  Reply reply;
  if (params != nullptr) request.type = params->type;
  if (edges != nullptr) request.edges.Borrow(edges, count);
  const CUresult result = SendNewNode(call, node, graph, dependencies, count, params, request, &reply,
                                      [&](NodeMessage* message) { return EncodeNode(call, *params, message); });
  return result != CUDA_SUCCESS ? result : StoreOutputs(call, request.node, reply, params);
}

}  // namespace

CUresult Custom_cuGraphAddNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return AddAny<cuGraphAddNodeRequest, cuGraphAddNodeReply>(call, phGraphNode, hGraph, dependencies, nullptr, numDependencies,
                                                            nodeParams);
}

CUresult Custom_cuGraphAddNode_v2(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  const CUgraphEdgeData* dependencyData, size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return AddAny<cuGraphAddNode_v2Request, cuGraphAddNode_v2Reply>(call, phGraphNode, hGraph, dependencies, dependencyData,
                                                                  numDependencies, nodeParams);
}

CUresult Custom_cuGraphNodeSetParams(Call& call, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  cuGraphNodeSetParamsRequest request;
  if (nodeParams != nullptr) request.type = nodeParams->type;
  return SetNode(
      call, hNode, nodeParams, [&](NodeMessage* message) { return EncodeNode(call, *nodeParams, message); }, std::move(request));
}

CUresult Custom_cuGraphExecNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  cuGraphExecNodeSetParamsRequest request;
  if (nodeParams != nullptr) request.type = nodeParams->type;
  return SetExecNode(
      call, hGraphExec, hNode, nodeParams, [&](NodeMessage* message) { return EncodeNode(call, *nodeParams, message); },
      std::move(request));
}

}  // namespace tessera
