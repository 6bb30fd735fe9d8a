// Graphs as a whole: what they consist of, instantiating, launching and destroying them.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/code/blob.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/graphs/captured_sets.h"
#include "client-stub/graphs/device_graphs.h"
#include "client-stub/graphs/graph_memory.h"
#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/graphs/graph_shadow.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client_custom.h"
#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

// Some edges of the graph are no plain dependencies: a caller that did not ask for the data would lose them.
bool ArePlain(const Array<CUgraphEdgeData>& edges) {
  return std::all_of(edges.begin(), edges.end(),
                     [](const CUgraphEdgeData& edge) { return edge.from_port == 0 && edge.to_port == 0 && edge.type == 0; });
}

// Hands out a list the way the driver does: without an array its length alone, else up to `*count` elements; what is left
// of the array becomes null.
void StoreNodes(Call& call, const Array<HandleId>& ids, CUgraphNode* nodes, size_t capacity) {
  for (HandleId id : ids) call.Adopt(id);
  if (nodes == nullptr) return;
  for (size_t i = 0; i < capacity; ++i) nodes[i] = i < ids.size() ? ToObject<CUgraphNode>(ids[i]) : nullptr;
}

template <typename Request, typename Reply>
CUresult ListGraph(Call& call, CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (!call.ok()) return call.result();
  if (count == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.graph = call.Use(HandleKind::kGraph, graph);
  if (!call.ok()) return call.result();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  StoreNodes(call, reply.nodes, nodes, *count);
  *count = nodes == nullptr ? reply.nodes.size() : std::min(*count, reply.nodes.size());
  return CUDA_SUCCESS;
}

template <typename Request, typename Reply>
CUresult ListEdges(Call& call, CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count) {
  if (!call.ok()) return call.result();
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (edges != nullptr && from == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.graph = call.Use(HandleKind::kGraph, graph);
  if (!call.ok()) return call.result();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.to.size() != reply.from.size() || reply.edges.size() != reply.from.size()) return call.MalformedReply();
  if (edges == nullptr && from != nullptr && !ArePlain(reply.edges)) return CUDA_ERROR_LOSSY_QUERY;
  const size_t stored = std::min(*count, reply.from.size());
  StoreNodes(call, reply.from, from, *count);
  StoreNodes(call, reply.to, to, *count);
  if (edges != nullptr) std::copy_n(reply.edges.begin(), stored, edges);
  *count = from == nullptr ? reply.from.size() : stored;
  return CUDA_SUCCESS;
}

template <typename Request, typename Reply>
CUresult ListNeighbours(Call& call, CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, size_t* count) {
  if (!call.ok()) return call.result();
  if (count == nullptr || (edges != nullptr && nodes == nullptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok()) return call.result();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.edges.size() != reply.nodes.size()) return call.MalformedReply();
  if (edges == nullptr && nodes != nullptr && !ArePlain(reply.edges)) return CUDA_ERROR_LOSSY_QUERY;
  const size_t stored = std::min(*count, reply.nodes.size());
  StoreNodes(call, reply.nodes, nodes, *count);
  if (edges != nullptr) std::copy_n(reply.edges.begin(), stored, edges);
  *count = nodes == nullptr ? reply.nodes.size() : stored;
  return CUDA_SUCCESS;
}

template <typename Request, typename Reply>
CUresult Update(Call& call, CUgraphExec exec, CUgraph graph, Reply* reply) {
  Request request;
  request.exec = call.Use(HandleKind::kGraphExec, exec);
  request.graph = call.Use(HandleKind::kGraph, graph);
  if (!call.ok() || !CheckCapturedSets(call, graph)) return call.result();
  if (GraphExecInfo* info = GraphExecs().Find(request.exec)) info->launched.store(false, std::memory_order_relaxed);
  const CUresult result = call.Sync(request, reply);
  if (result != CUDA_SUCCESS) return result;
  call.Adopt(reply->error_node);
  call.Adopt(reply->error_from_node);
  if (reply->result == CUDA_SUCCESS) GiveOwnSources(call, request.exec);
  return CUDA_SUCCESS;
}

void WarnOfHostCopy(Call& call) {
  LogWarning(
      "{}: a graph that kernels launch cannot copy memory that only this process has (registered memory; between hosts all "
      "pinned memory): copy it from the host, or in a kernel",
      call.info().name);
}

}  // namespace

CUresult Custom_cuGraphGetNodes(Call& call, CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  return ListGraph<cuGraphGetNodesRequest, cuGraphGetNodesReply>(call, hGraph, nodes, numNodes);
}
CUresult Custom_cuGraphGetRootNodes(Call& call, CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  return ListGraph<cuGraphGetRootNodesRequest, cuGraphGetRootNodesReply>(call, hGraph, rootNodes, numRootNodes);
}
CUresult Custom_cuGraphGetEdges(Call& call, CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
  return ListEdges<cuGraphGetEdgesRequest, cuGraphGetEdgesReply>(call, hGraph, from, to, nullptr, numEdges);
}
CUresult Custom_cuGraphGetEdges_v2(Call& call, CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                                   size_t* numEdges) {
  return ListEdges<cuGraphGetEdges_v2Request, cuGraphGetEdges_v2Reply>(call, hGraph, from, to, edgeData, numEdges);
}
CUresult Custom_cuGraphNodeGetDependencies(Call& call, CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
  return ListNeighbours<cuGraphNodeGetDependenciesRequest, cuGraphNodeGetDependenciesReply>(call, hNode, dependencies, nullptr,
                                                                                            numDependencies);
}
CUresult Custom_cuGraphNodeGetDependencies_v2(Call& call, CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData,
                                              size_t* numDependencies) {
  return ListNeighbours<cuGraphNodeGetDependencies_v2Request, cuGraphNodeGetDependencies_v2Reply>(call, hNode, dependencies,
                                                                                                  edgeData, numDependencies);
}
CUresult Custom_cuGraphNodeGetDependentNodes(Call& call, CUgraphNode hNode, CUgraphNode* dependentNodes,
                                             size_t* numDependentNodes) {
  return ListNeighbours<cuGraphNodeGetDependentNodesRequest, cuGraphNodeGetDependentNodesReply>(call, hNode, dependentNodes,
                                                                                                nullptr, numDependentNodes);
}
CUresult Custom_cuGraphNodeGetDependentNodes_v2(Call& call, CUgraphNode hNode, CUgraphNode* dependentNodes,
                                                CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
  return ListNeighbours<cuGraphNodeGetDependentNodes_v2Request, cuGraphNodeGetDependentNodes_v2Reply>(
      call, hNode, dependentNodes, edgeData, numDependentNodes);
}

CUresult Custom_cuGraphDestroyNode(Call& call, CUgraphNode hNode) {
  if (!call.ok()) return call.result();
  cuGraphDestroyNodeRequest request;
  request.node = call.Free(HandleKind::kGraphNode, hNode);
  if (!call.ok()) return call.result();
  cuGraphDestroyNodeReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  NodeParametersOfProcess().Drop(request.node);
  EndHandles(call, reply.nodes);
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphDestroy(Call& call, CUgraph hGraph) {
  if (!call.ok()) return call.result();
  cuGraphDestroyRequest request;
  request.graph = call.Free(HandleKind::kGraph, hGraph);
  if (!call.ok()) return call.result();
  cuGraphDestroyReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  EndHandles(call, reply.nodes);
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphInstantiateWithParams(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  if (!call.ok()) return call.result();
  if (phGraphExec == nullptr || instantiateParams == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphInstantiateWithParamsRequest request;
  request.graph = call.Use(HandleKind::kGraph, hGraph);
  request.flags = instantiateParams->flags;
  if ((request.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
    request.upload_stream = call.UseStream(instantiateParams->hUploadStream);
  }
  request.exec = MintGraphExec(call);
  if (!call.ok() || !CheckCapturedSets(call, hGraph)) return call.result();
  cuGraphInstantiateWithParamsReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  call.Adopt(reply.error_node);
  instantiateParams->hErrNode_out = ToObject<CUgraphNode>(reply.error_node);
  instantiateParams->result_out = static_cast<CUgraphInstantiateResult>(reply.instantiate_result);
  if (reply.host_copy) WarnOfHostCopy(call);
  if (reply.result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(reply.result));
  const uint64_t device_graph = reply.device_graph;
  GiveOwnSources(call, request.exec);
  return StoreGraphExec(call, request.exec, device_graph, phGraphExec);
}

CUresult Custom_cuGraphInstantiateWithFlags(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  if (!call.ok()) return call.result();
  if (phGraphExec == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphInstantiateWithFlagsRequest request;
  request.graph = call.Use(HandleKind::kGraph, hGraph);
  request.flags = flags;
  request.exec = MintGraphExec(call);
  if (!call.ok() || !CheckCapturedSets(call, hGraph)) return call.result();
  cuGraphInstantiateWithFlagsReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.host_copy) WarnOfHostCopy(call);
  if (reply.result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(reply.result));
  const uint64_t device_graph = reply.device_graph;
  GiveOwnSources(call, request.exec);
  return StoreGraphExec(call, request.exec, device_graph, phGraphExec);
}

CUresult Custom_cuGraphInstantiate_v2(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                      char* logBuffer, size_t bufferSize) {
  if (!call.ok()) return call.result();
  if (phGraphExec == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphInstantiate_v2Request request;
  request.graph = call.Use(HandleKind::kGraph, hGraph);
  request.exec = MintGraphExec(call);
  if (!call.ok() || !CheckCapturedSets(call, hGraph)) return call.result();
  cuGraphInstantiate_v2Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  call.Adopt(reply.error_node);
  if (phErrorNode != nullptr) *phErrorNode = ToObject<CUgraphNode>(reply.error_node);
  if (logBuffer != nullptr) StoreText(reply.log, logBuffer, bufferSize);
  if (reply.result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(reply.result));
  GiveOwnSources(call, request.exec);
  return StoreGraphExec(call, request.exec, 0, phGraphExec);
}

CUresult Custom_cuGraphExecUpdate(Call& call, CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                  CUgraphExecUpdateResult* updateResult_out) {
  if (!call.ok()) return call.result();
  cuGraphExecUpdateReply reply;
  if (const CUresult result = Update<cuGraphExecUpdateRequest>(call, hGraphExec, hGraph, &reply); result != CUDA_SUCCESS) {
    return result;
  }
  if (hErrorNode_out != nullptr) *hErrorNode_out = ToObject<CUgraphNode>(reply.error_node);
  if (updateResult_out != nullptr) *updateResult_out = static_cast<CUgraphExecUpdateResult>(reply.update_result);
  return static_cast<CUresult>(reply.result);
}

CUresult Custom_cuGraphExecUpdate_v2(Call& call, CUgraphExec hGraphExec, CUgraph hGraph,
                                     CUgraphExecUpdateResultInfo* resultInfo) {
  if (!call.ok()) return call.result();
  if (resultInfo == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphExecUpdate_v2Reply reply;
  if (const CUresult result = Update<cuGraphExecUpdate_v2Request>(call, hGraphExec, hGraph, &reply); result != CUDA_SUCCESS) {
    return result;
  }
  resultInfo->result = static_cast<CUgraphExecUpdateResult>(reply.update_result);
  resultInfo->errorNode = ToObject<CUgraphNode>(reply.error_node);
  resultInfo->errorFromNode = ToObject<CUgraphNode>(reply.error_from_node);
  return static_cast<CUresult>(reply.result);
}

CUresult Custom_cuGraphExecChildGraphNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  if (!call.ok()) return call.result();
  cuGraphExecChildGraphNodeSetParamsRequest request;
  request.hGraphExec = call.Use(HandleKind::kGraphExec, hGraphExec);
  request.hNode = call.Use(HandleKind::kGraphNode, hNode);
  request.childGraph = call.Use(HandleKind::kGraph, childGraph);
  if (!call.ok()) return call.result();
  if (GraphExecInfo* info = GraphExecs().Find(request.hGraphExec)) info->launched.store(false, std::memory_order_relaxed);
  return call.Sync(request);
}

CUresult Custom_cuGraphExecDestroy(Call& call, CUgraphExec hGraphExec) {
  if (!call.ok()) return call.result();
  if (DeviceGraphs::Process().WaitsToEnd(hGraphExec)) return DestroyDeviceGraph(call, hGraphExec);
  cuGraphExecDestroyRequest request;
  request.hGraphExec = call.Free(HandleKind::kGraphExec, hGraphExec);
  if (!call.ok()) return call.result();
  GraphExecs().Erase(request.hGraphExec);
  return call.Async(request);
}

CUresult Custom_cuGraphUpload(Call& call, CUgraphExec hGraph, CUstream hStream) {
  if (!call.ok()) return call.result();
  cuGraphUploadRequest request;
  request.hGraph = call.Use(HandleKind::kGraphExec, hGraph);
  UsedStream stream;
  if (!call.ok() || !UseStreamInfo(call, hStream, &stream)) return call.result();
  if (const CUresult legal = Captures().CheckUncapturable(stream.ref); legal != CUDA_SUCCESS) return call.Fail(legal);
  request.hStream = stream.id;
  return call.Sync(request);
}

CUresult Custom_cuGraphLaunch(Call& call, CUgraphExec hGraph, CUstream hStream) {
  if (!call.ok()) return call.result();
  cuGraphLaunchRequest request;
  request.hGraph = call.Use(HandleKind::kGraphExec, hGraph);
  UsedStream stream;
  if (!call.ok() || !UseStreamInfo(call, hStream, &stream)) return call.result();
  if (const CUresult legal = Captures().CheckUncapturable(stream.ref); legal != CUDA_SUCCESS) return call.Fail(legal);
  request.hStream = stream.id;
  SourceSnapshots snapshots(call, request.hGraph);
  if (const CUresult taken = snapshots.Take(); taken != CUDA_SUCCESS) return taken;
  GraphExecInfo* info = GraphExecs().Find(request.hGraph);
  WorkOnAnything work(call);
  const bool known = info != nullptr && info->launched.load(std::memory_order_relaxed) && !AnyGraphMemory();
  cuGraphLaunchReply reply;
  const CUresult result = known ? work.Async(request) : work.Sync(request, &reply);
  GraphRecords::Process().NoteLaunch(call.session().index(), call.sequence());
  call.session().polls().ForgetAll();  // its nodes may record events
  if (result != CUDA_SUCCESS) return result;
  snapshots.Keep();
  if (known || reply.waited) return CUDA_SUCCESS;
  if (info == nullptr) info = GraphExecs().Insert(request.hGraph, [](GraphExecInfo&) {});
  if (info != nullptr) info->launched.store(true, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphDebugDotPrint(Call& call, CUgraph hGraph, const char* path, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (path == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphDebugDotPrintRequest request;
  request.graph = call.Use(HandleKind::kGraph, hGraph);
  request.flags = flags;
  if (!call.ok()) return call.result();
  cuGraphDebugDotPrintReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  std::vector<std::byte> text;
  if (reply.size_bytes != 0) {
    if (const CUresult result = FetchBlob(call, reply.blob, reply.size_bytes, &text); result != CUDA_SUCCESS) return result;
  }
  const UniqueFd file(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(file.get(), text.data() + done, text.size() - done);
    if (count <= 0) return CUDA_ERROR_OPERATING_SYSTEM;
    done += static_cast<size_t>(count);
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera
