// Stream capture: legality is decided here (capture.h), graphs are built by the server's driver.

#include <memory>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/dependency_arrays.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client_custom.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

template <typename Request>
CUresult Begin(Call& call, CUstream stream, CUstreamCaptureMode mode, Request& request) {
  UsedStream used;
  if (!UseStreamInfo(call, stream, &used)) return call.result();
  request.stream = used.id;
  ManagedMemory::Of(call.session()).BeforeCapture();
  const CUresult legal = Captures().Begin(CallerOf(call.thread()), used.ref, mode);
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) Captures().Drop(used.ref);
  return result;
}

// Asks the server what became of a capture of which only it knows.
template <typename Request, typename Reply>
CUresult AskServer(Call& call, const UsedStream& stream, Request* request, Reply* reply) {
  request->stream = stream.id;
  const CUresult result = call.Sync(*request, reply);
  if (result == CUDA_SUCCESS) Captures().SetStatus(stream.ref, static_cast<CUstreamCaptureStatus>(reply->status));
  return result;
}

// The local part of all questions: status and id. `used` and `info` are filled in.
bool LocalInfo(Call& call, CUstream stream, const void* status, UsedStream* used, CaptureTable::Info* info) {
  if (!call.ok()) return false;
  if (status == nullptr) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  if (!UseStreamInfo(call, stream, used)) return false;
  if (call.Fail(Captures().GetInfo(used->ref, info)) != CUDA_SUCCESS) return false;
  if (!info->uncertain) return true;
  Call ask(kInfo_cuStreamGetCaptureInfo_v2, call.per_thread_stream());
  ask.MoveTo(call);
  cuStreamGetCaptureInfo_v2Request request;
  cuStreamGetCaptureInfo_v2Reply reply;
  if (ask.ok()) ask.Fail(AskServer(ask, *used, &request, &reply));
  if (call.Fail(ask.result()) != CUDA_SUCCESS) return false;
  return call.Fail(Captures().GetInfo(used->ref, info)) == CUDA_SUCCESS;
}

template <typename Request, typename Reply>
CUresult Info(Call& call, CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** dependencies, const CUgraphEdgeData** edges, bool edges_are_asked, size_t* count) {
  UsedStream used;
  CaptureTable::Info info;
  if (!LocalInfo(call, stream, status, &used, &info)) return call.result();
  if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {  // the driver leaves the other outputs as they are
    *status = info.status;
    return CUDA_SUCCESS;
  }
  if (graph == nullptr && dependencies == nullptr && edges == nullptr && count == nullptr) {
    *status = info.status;
    if (id != nullptr) *id = info.id;
    return CUDA_SUCCESS;
  }
  Request request;
  Reply reply;
  const CUresult result = AskServer(call, used, &request, &reply);
  if (result != CUDA_SUCCESS) return result;
  *status = static_cast<CUstreamCaptureStatus>(reply.status);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  const std::shared_ptr<Dependencies> kept = DependencyArrays::Process().Replace(used.ref.key);
  bool plain = true;
  for (HandleId node : reply.dependencies) {
    call.Adopt(node);
    kept->nodes.push_back(ToObject<CUgraphNode>(node));
  }
  for (const CUgraphEdgeData& edge : reply.edges) {
    plain = plain && edge.from_port == 0 && edge.to_port == 0 && edge.type == 0;
    kept->edges.push_back(edge);
  }
  // Edges that are not plain dependencies would be lost silently without their data.
  if (!edges_are_asked && !plain && (dependencies != nullptr || count != nullptr)) return CUDA_ERROR_LOSSY_QUERY;
  kept->edges.resize(kept->nodes.size());
  call.Adopt(reply.graph);
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = ToObject<CUgraph>(reply.graph);
  if (dependencies != nullptr) *dependencies = kept->nodes.data();
  if (edges != nullptr) *edges = kept->edges.data();
  if (count != nullptr) *count = kept->nodes.size();
  return CUDA_SUCCESS;
}

template <typename Request>
CUresult Update(Call& call, CUstream stream, const CUgraphNode* dependencies, const CUgraphEdgeData* edges, size_t count,
                unsigned flags, Request& request) {
  if (!call.ok()) return call.result();
  if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  UsedStream used;
  std::vector<HandleId> ids;
  if (!UseStreamInfo(call, stream, &used) || !UseNodes(call, dependencies, count, &ids)) return call.result();
  bool capturing = false;
  if (const CUresult legal = Captures().CheckUse(used.ref, &capturing); legal != CUDA_SUCCESS) return call.Fail(legal);
  if (!capturing) return call.Fail(CUDA_ERROR_ILLEGAL_STATE);
  request.stream = used.id;
  request.dependencies.Borrow(ids);
  if (edges != nullptr) request.edges.Borrow(edges, count);
  request.flags = flags;
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) Captures().SetUncertain(used.ref);
  return result;
}

}  // namespace

CUresult Custom_cuThreadExchangeStreamCaptureMode(Call& call, CUstreamCaptureMode* mode) {
  if (!call.ok()) return call.result();
  if (mode == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::swap(*mode, call.thread().capture_mode);
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamBeginCapture(Call& call, CUstream hStream) {
  if (!call.ok()) return call.result();
  cuStreamBeginCaptureRequest request;
  return Begin(call, hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, request);
}

CUresult Custom_cuStreamBeginCapture_v2(Call& call, CUstream hStream, CUstreamCaptureMode mode) {
  if (!call.ok()) return call.result();
  cuStreamBeginCapture_v2Request request;
  return Begin(call, hStream, mode, request);
}

CUresult Custom_cuStreamBeginCaptureToGraph(Call& call, CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                            const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                            CUstreamCaptureMode mode) {
  if (!call.ok()) return call.result();
  cuStreamBeginCaptureToGraphRequest request;
  request.graph = call.Use(HandleKind::kGraph, hGraph);
  std::vector<HandleId> ids;
  if (!call.ok() || !UseNodes(call, dependencies, numDependencies, &ids)) return call.result();
  request.dependencies.Borrow(ids);
  if (dependencyData != nullptr) request.edges.Borrow(dependencyData, numDependencies);
  return Begin(call, hStream, mode, request);
}

CUresult Custom_cuStreamEndCapture(Call& call, CUstream hStream, CUgraph* phGraph) {
  UsedStream used;
  if (!call.ok() || !UseStreamInfo(call, hStream, &used)) return call.result();
  CaptureTable::Ending ending;
  const CUresult verdict = Captures().End(CallerOf(call.thread()), used.ref, &ending);
  if (ending == CaptureTable::Ending::kNone) return call.Fail(verdict);
  DependencyArrays::Process().Drop(used.ref.key);
  cuStreamEndCaptureRequest request;
  request.stream = used.id;
  request.discard = ending == CaptureTable::Ending::kDiscard || phGraph == nullptr;
  if (request.discard == 0) request.graph = call.Mint(HandleKind::kGraph);
  if (!call.ok()) return call.result();
  cuStreamEndCaptureReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (verdict != CUDA_SUCCESS || result != CUDA_SUCCESS) {
    if (phGraph != nullptr) *phGraph = nullptr;
    return call.Fail(verdict != CUDA_SUCCESS ? verdict : result);
  }
  if (phGraph == nullptr) return CUDA_SUCCESS;
  // A graph that the application had before (capture to graph, or asked for during the capture) keeps its handle.
  if (reply.graph != request.graph) call.Release(request.graph);
  *phGraph = ToObject<CUgraph>(reply.graph);
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamIsCapturing(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  UsedStream used;
  CaptureTable::Info info;
  if (!LocalInfo(call, hStream, captureStatus, &used, &info)) return call.result();
  *captureStatus = info.status;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetCaptureInfo(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                       cuuint64_t* id_out) {
  UsedStream used;
  CaptureTable::Info info;
  if (!LocalInfo(call, hStream, captureStatus_out, &used, &info)) return call.result();
  *captureStatus_out = info.status;
  if (id_out != nullptr && info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) *id_out = info.id;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetCaptureInfo_v2(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                          cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                          size_t* numDependencies_out) {
  return Info<cuStreamGetCaptureInfo_v2Request, cuStreamGetCaptureInfo_v2Reply>(
      call, hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, false, numDependencies_out);
}

CUresult Custom_cuStreamGetCaptureInfo_v3(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                          cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                          const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  return Info<cuStreamGetCaptureInfo_v3Request, cuStreamGetCaptureInfo_v3Reply>(call, hStream, captureStatus_out, id_out,
                                                                                graph_out, dependencies_out, edgeData_out,
                                                                                edgeData_out != nullptr, numDependencies_out);
}

CUresult Custom_cuStreamUpdateCaptureDependencies(Call& call, CUstream hStream, CUgraphNode* dependencies, size_t numDependencies,
                                                  unsigned int flags) {
  cuStreamUpdateCaptureDependenciesRequest request;
  return Update(call, hStream, dependencies, nullptr, numDependencies, flags, request);
}

CUresult Custom_cuStreamUpdateCaptureDependencies_v2(Call& call, CUstream hStream, CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                     unsigned int flags) {
  cuStreamUpdateCaptureDependencies_v2Request request;
  return Update(call, hStream, dependencies, dependencyData, numDependencies, flags, request);
}

}  // namespace tessera
