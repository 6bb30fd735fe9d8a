// Graphs on the driver: nodes of kernels and host functions, and what graphs consist of. Nodes that use memory:
// graph_memory_node.cc; of any kind: graph_any_node.cc; instantiated graphs: graph_exec.cc.

#include <algorithm>
#include <cstring>
#include <vector>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "protocol/wire/graph_params.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/graphs/graph_handles.h"
#include "server/worker/graphs/host_copy_node.h"
#include "server/worker/graphs/kernel_needs.h"
#include "server/worker/graphs/node_calls.h"
#include "server/worker/graphs/node_params.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

template <typename Reply, typename Request>
void AddKernel(CallContext& call, const Request& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  KernelNodeParams params;
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  const DriverTable& driver = call.driver();
  CUgraphNode node = nullptr;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  CUDA_KERNEL_NODE_PARAMS_v1 old;
  if (driver.cuGraphAddKernelNode_v2 != nullptr) {
    result =
        driver.cuGraphAddKernelNode_v2(&node, place.graph, place.dependencies.data(), place.dependencies.size(), &params.get());
  } else if (driver.cuGraphAddKernelNode != nullptr && params.GetV1(&old)) {
    result = driver.cuGraphAddKernelNode(&node, place.graph, place.dependencies.data(), place.dependencies.size(), &old);
  }
  FinishAdd<Reply>(call, request, result, node);
}

template <typename Request>
void SetKernel(CallContext& call, const Request& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  KernelNodeParams params;
  if (!call.ok()) return call.Finish(call.error());
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  const DriverTable& driver = call.driver();
  CUDA_KERNEL_NODE_PARAMS_v1 old;
  if (driver.cuGraphKernelNodeSetParams_v2 != nullptr) {
    return call.Finish(driver.cuGraphKernelNodeSetParams_v2(node, &params.get()));
  }
  if (driver.cuGraphKernelNodeSetParams != nullptr && params.GetV1(&old)) {
    return call.Finish(driver.cuGraphKernelNodeSetParams(node, &old));
  }
  call.Finish(CUDA_ERROR_NOT_SUPPORTED);
}

template <typename Request>
void SetExecKernel(CallContext& call, const Request& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto node = call.Use<CUgraphNode>(request.node);
  KernelNodeParams params;
  if (!call.ok()) return call.Finish(call.error());
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  const DriverTable& driver = call.driver();
  CUDA_KERNEL_NODE_PARAMS_v1 old;
  const auto set = [&] {
    if (driver.cuGraphExecKernelNodeSetParams_v2 != nullptr) {
      return driver.cuGraphExecKernelNodeSetParams_v2(exec, node, &params.get());
    }
    if (driver.cuGraphExecKernelNodeSetParams != nullptr && params.GetV1(&old)) {
      return driver.cuGraphExecKernelNodeSetParams(exec, node, &old);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  const LocalNeeds needs = NeedsOfKernel(call, params.get());
  const CUresult result = WithLocalMemory(call, needs, set);
  if (result == CUDA_SUCCESS) call.worker().parts().memory().charges().needs().Add(exec, needs);
  call.Finish(result);
}

// The function of a host node as the driver calls it. False when the call has ended.
template <typename Request>
bool DecodeHost(CallContext& call, const Request& request, CUDA_HOST_NODE_PARAMS* params) {
  HostNodeRecord record;
  if (request.params.size() != sizeof(record)) {
    call.Malformed();
    return false;
  }
  std::memcpy(&record, request.params.data(), sizeof(record));
  *params = call.worker().parts().host_functions().NodeParams(record.function);
  return true;
}

template <typename Reply, typename Request>
void ListGraph(CallContext& call, const Request& request, bool roots) {
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  std::vector<CUgraphNode> nodes;
  const CUresult result = ListNodes(call, graph, roots, &nodes);
  Reply reply;
  if (result == CUDA_SUCCESS) KnownNodes(call, nodes, &reply.nodes);
  call.Finish(result, reply);
}

template <typename Reply, typename Request>
void ListEdges(CallContext& call, const Request& request) {
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  const DriverTable& driver = call.driver();
  const auto list = [&](CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count) {
    if (driver.cuGraphGetEdges_v2 != nullptr) return driver.cuGraphGetEdges_v2(graph, from, to, edges, count);
    if (driver.cuGraphGetEdges != nullptr) return driver.cuGraphGetEdges(graph, from, to, count);
    return MissingEntry("cuGraphGetEdges");
  };
  size_t count = 0;
  CUresult result = list(nullptr, nullptr, nullptr, &count);
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> edges(count);
  if (result == CUDA_SUCCESS && count != 0) result = list(from.data(), to.data(), edges.data(), &count);
  from.resize(std::min(count, from.size()));
  to.resize(from.size());
  edges.resize(from.size());
  Reply reply;
  if (result == CUDA_SUCCESS) {
    KnownNodes(call, from, &reply.from);
    KnownNodes(call, to, &reply.to);
    reply.edges.Borrow(edges);
  }
  call.Finish(result, reply);
}

template <typename Reply, typename Request, typename Function, typename FunctionWithEdges>
void ListNeighbours(CallContext& call, const Request& request, Function plain, FunctionWithEdges with_edges) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  const auto list = [&](CUgraphNode* nodes, CUgraphEdgeData* edges, size_t* count) {
    if (with_edges != nullptr) return with_edges(node, nodes, edges, count);
    if (plain != nullptr) return plain(node, nodes, count);
    return MissingEntry("cuGraphNodeGetDependencies");
  };
  size_t count = 0;
  CUresult result = list(nullptr, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  std::vector<CUgraphEdgeData> edges(count);
  if (result == CUDA_SUCCESS && count != 0) result = list(nodes.data(), edges.data(), &count);
  nodes.resize(std::min(count, nodes.size()));
  edges.resize(nodes.size());
  Reply reply;
  if (result == CUDA_SUCCESS) {
    KnownNodes(call, nodes, &reply.nodes);
    reply.edges.Borrow(edges);
  }
  call.Finish(result, reply);
}

}  // namespace

void Do_cuGraphAddKernelNode(CallContext& call, const cuGraphAddKernelNodeRequest& request) {
  AddKernel<cuGraphAddKernelNodeReply>(call, request);
}
void Do_cuGraphAddKernelNode_v2(CallContext& call, const cuGraphAddKernelNode_v2Request& request) {
  AddKernel<cuGraphAddKernelNode_v2Reply>(call, request);
}
void Do_cuGraphKernelNodeGetParams(CallContext& call, const cuGraphKernelNodeGetParamsRequest& request) {
  GetNode<cuGraphKernelNodeGetParamsReply>(call, request, EncodeKernelNode);
}
void Do_cuGraphKernelNodeGetParams_v2(CallContext& call, const cuGraphKernelNodeGetParams_v2Request& request) {
  GetNode<cuGraphKernelNodeGetParams_v2Reply>(call, request, EncodeKernelNode);
}
void Do_cuGraphKernelNodeSetParams(CallContext& call, const cuGraphKernelNodeSetParamsRequest& request) {
  SetKernel(call, request);
}
void Do_cuGraphKernelNodeSetParams_v2(CallContext& call, const cuGraphKernelNodeSetParams_v2Request& request) {
  SetKernel(call, request);
}
void Do_cuGraphExecKernelNodeSetParams(CallContext& call, const cuGraphExecKernelNodeSetParamsRequest& request) {
  SetExecKernel(call, request);
}
void Do_cuGraphExecKernelNodeSetParams_v2(CallContext& call, const cuGraphExecKernelNodeSetParams_v2Request& request) {
  SetExecKernel(call, request);
}

void Do_cuGraphAddHostNode(CallContext& call, const cuGraphAddHostNodeRequest& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  CUDA_HOST_NODE_PARAMS params;
  if (!DecodeHost(call, request, &params)) return;
  if (call.driver().cuGraphAddHostNode == nullptr) return call.Finish(MissingEntry("cuGraphAddHostNode"));
  CUgraphNode node = nullptr;
  const CUresult result =
      call.driver().cuGraphAddHostNode(&node, place.graph, place.dependencies.data(), place.dependencies.size(), &params);
  FinishAdd<cuGraphAddHostNodeReply>(call, request, result, node);
}

void Do_cuGraphHostNodeGetParams(CallContext& call, const cuGraphHostNodeGetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphHostNodeGetParams == nullptr) return call.Finish(MissingEntry("cuGraphHostNodeGetParams"));
  CUDA_HOST_NODE_PARAMS params{};
  const CUresult result = call.driver().cuGraphHostNodeGetParams(node, &params);
  const HostNodeRecord record{HostFunctions::FunctionOf(params)};
  cuGraphHostNodeGetParamsReply reply;
  reply.params = std::as_bytes(std::span(&record, 1));
  call.Finish(result, reply);
}

void Do_cuGraphHostNodeSetParams(CallContext& call, const cuGraphHostNodeSetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  CUDA_HOST_NODE_PARAMS params;
  if (!DecodeHost(call, request, &params)) return;
  if (call.driver().cuGraphHostNodeSetParams == nullptr) return call.Finish(MissingEntry("cuGraphHostNodeSetParams"));
  call.Finish(call.driver().cuGraphHostNodeSetParams(node, &params));
}

void Do_cuGraphExecHostNodeSetParams(CallContext& call, const cuGraphExecHostNodeSetParamsRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  CUDA_HOST_NODE_PARAMS params;
  if (!DecodeHost(call, request, &params)) return;
  if (call.driver().cuGraphExecHostNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphExecHostNodeSetParams"));
  }
  call.Finish(call.driver().cuGraphExecHostNodeSetParams(exec, node, &params));
}

// CUDA declares the value constant, but the driver writes the device node of a node that kernels may change into it.
void Do_cuGraphKernelNodeSetAttribute(CallContext& call, const cuGraphKernelNodeSetAttributeRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphKernelNodeSetAttribute == nullptr) {
    return call.Finish(MissingEntry("cuGraphKernelNodeSetAttribute"));
  }
  CUkernelNodeAttrValue value = request.value;
  const CUresult result = call.driver().cuGraphKernelNodeSetAttribute(node, request.attr, &value);
  cuGraphKernelNodeSetAttributeReply reply;
  if (request.attr == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) {
    reply.device_node = reinterpret_cast<uint64_t>(value.deviceUpdatableKernelNode.devNode);
  }
  call.Finish(result, reply);
}

// What the driver sees as a child graph may be a copy to the application.
void Do_cuGraphNodeGetType(CallContext& call, const cuGraphNodeGetTypeRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.hNode);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphNodeGetType == nullptr) return call.Finish(MissingEntry("cuGraphNodeGetType"));
  cuGraphNodeGetTypeReply reply;
  const CUresult result = call.driver().cuGraphNodeGetType(node, &reply.type);
  if (result == CUDA_SUCCESS && reply.type == CU_GRAPH_NODE_TYPE_GRAPH && IsHostCopyNode(call, node)) {
    reply.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  }
  call.Finish(result, reply);
}

void Do_cuGraphChildGraphNodeGetGraph(CallContext& call, const cuGraphChildGraphNodeGetGraphRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.hNode);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphChildGraphNodeGetGraph == nullptr) {
    return call.Finish(MissingEntry("cuGraphChildGraphNodeGetGraph"));
  }
  CUgraph graph = nullptr;
  const CUresult result =
      IsHostCopyNode(call, node) ? CUDA_ERROR_INVALID_VALUE : call.driver().cuGraphChildGraphNodeGetGraph(node, &graph);
  cuGraphChildGraphNodeGetGraphReply reply;
  if (result == CUDA_SUCCESS) reply.phGraph = call.Known(HandleKind::kGraph, graph);
  call.Finish(result, reply);
}

void Do_cuGraphGetNodes(CallContext& call, const cuGraphGetNodesRequest& request) {
  ListGraph<cuGraphGetNodesReply>(call, request, false);
}
void Do_cuGraphGetRootNodes(CallContext& call, const cuGraphGetRootNodesRequest& request) {
  ListGraph<cuGraphGetRootNodesReply>(call, request, true);
}
void Do_cuGraphGetEdges(CallContext& call, const cuGraphGetEdgesRequest& request) {
  ListEdges<cuGraphGetEdgesReply>(call, request);
}
void Do_cuGraphGetEdges_v2(CallContext& call, const cuGraphGetEdges_v2Request& request) {
  ListEdges<cuGraphGetEdges_v2Reply>(call, request);
}
void Do_cuGraphNodeGetDependencies(CallContext& call, const cuGraphNodeGetDependenciesRequest& request) {
  ListNeighbours<cuGraphNodeGetDependenciesReply>(call, request, call.driver().cuGraphNodeGetDependencies,
                                                  call.driver().cuGraphNodeGetDependencies_v2);
}
void Do_cuGraphNodeGetDependencies_v2(CallContext& call, const cuGraphNodeGetDependencies_v2Request& request) {
  ListNeighbours<cuGraphNodeGetDependencies_v2Reply>(call, request, call.driver().cuGraphNodeGetDependencies,
                                                     call.driver().cuGraphNodeGetDependencies_v2);
}
void Do_cuGraphNodeGetDependentNodes(CallContext& call, const cuGraphNodeGetDependentNodesRequest& request) {
  ListNeighbours<cuGraphNodeGetDependentNodesReply>(call, request, call.driver().cuGraphNodeGetDependentNodes,
                                                    call.driver().cuGraphNodeGetDependentNodes_v2);
}
void Do_cuGraphNodeGetDependentNodes_v2(CallContext& call, const cuGraphNodeGetDependentNodes_v2Request& request) {
  ListNeighbours<cuGraphNodeGetDependentNodes_v2Reply>(call, request, call.driver().cuGraphNodeGetDependentNodes,
                                                       call.driver().cuGraphNodeGetDependentNodes_v2);
}

void Do_cuGraphDestroyNode(CallContext& call, const cuGraphDestroyNodeRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphDestroyNode == nullptr) return call.Finish(MissingEntry("cuGraphDestroyNode"));
  std::vector<HandleId> freed;
  const CUresult result = DestroyNode(call, node, request.node, &freed);
  cuGraphDestroyNodeReply reply;
  reply.nodes.Borrow(freed);
  call.Finish(result, reply);
}

void Do_cuGraphDestroy(CallContext& call, const cuGraphDestroyRequest& request) {
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  std::vector<HandleId> freed;
  const CUresult result = DestroyGraph(call, graph, request.graph, &freed);
  cuGraphDestroyReply reply;
  reply.nodes.Borrow(freed);
  call.Finish(result, reply);
}

}  // namespace tessera
