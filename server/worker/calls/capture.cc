// Stream capture on the driver. Legality was decided by the client; every capture here is in RELAXED mode, since all calls
// of a session come from the same threads.

#include <vector>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/gate/gate.h"
#include "server/worker/graphs/graph_handles.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

constexpr CUstreamCaptureMode kMode = CU_STREAM_CAPTURE_MODE_RELAXED;

template <typename Request>
void Begin(CallContext& call, const Request& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().gate().BeforeCapture(stream);
  call.Finish(call.driver().cuStreamBeginCapture_v2(stream, kMode));
}

template <typename Reply, typename Request>
void Info(CallContext& call, const Request& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  const DriverTable& driver = call.driver();
  const CUresult result = driver.cuStreamGetCaptureInfo_v3 != nullptr
                              ? driver.cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &dependencies, &edges, &count)
                              : driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  Reply reply;
  reply.status = status;
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    reply.graph = call.Known(HandleKind::kGraph, graph);
    HandleId* ids = reply.dependencies.Allocate(count);
    for (size_t i = 0; i < count; ++i) ids[i] = call.Known(HandleKind::kGraphNode, dependencies[i]);
    if (edges != nullptr) reply.edges.Borrow(edges, count);
  }
  call.Finish(result, reply);
}

template <typename Request>
void Update(CallContext& call, const Request& request) {
  const CUstream stream = call.UseStream(request.stream);
  std::vector<CUgraphNode> nodes = UseNodes(call, request.dependencies);
  if (!call.ok()) return call.Finish(call.error());
  const DriverTable& driver = call.driver();
  if (request.edges.empty()) {
    return call.Finish(driver.cuStreamUpdateCaptureDependencies(stream, nodes.data(), nodes.size(), request.flags));
  }
  if (request.edges.size() != nodes.size()) return call.Malformed();
  call.Finish(
      driver.cuStreamUpdateCaptureDependencies_v2(stream, nodes.data(), request.edges.data(), nodes.size(), request.flags));
}

}  // namespace

void Do_cuStreamBeginCapture(CallContext& call, const cuStreamBeginCaptureRequest& request) { Begin(call, request); }

void Do_cuStreamBeginCapture_v2(CallContext& call, const cuStreamBeginCapture_v2Request& request) { Begin(call, request); }

void Do_cuStreamBeginCaptureToGraph(CallContext& call, const cuStreamBeginCaptureToGraphRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  const auto graph = call.Use<CUgraph>(request.graph);
  const std::vector<CUgraphNode> nodes = UseNodes(call, request.dependencies);
  if (!call.ok()) return call.Finish(call.error());
  if (!request.edges.empty() && request.edges.size() != nodes.size()) return call.Malformed();
  const DriverTable& driver = call.driver();
  if (driver.cuStreamBeginCaptureToGraph == nullptr) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  call.worker().gate().BeforeCapture(stream);
  const CUresult result = driver.cuStreamBeginCaptureToGraph(
      stream, graph, nodes.data(), request.edges.empty() ? nullptr : request.edges.data(), nodes.size(), kMode);
  if (result == CUDA_SUCCESS) call.worker().parts().capture_targets().Begin(graph);
  call.Finish(result);
}

void Do_cuStreamEndCapture(CallContext& call, const cuStreamEndCaptureRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  CUgraph graph = nullptr;
  const CUresult result = call.driver().cuStreamEndCapture(stream, &graph);
  const bool was_application_s = graph != nullptr && call.worker().parts().capture_targets().End(graph);
  cuStreamEndCaptureReply reply;
  const HandleId known = call.worker().objects().HandleOf(HandleKind::kGraph, reinterpret_cast<uint64_t>(graph));
  if (request.discard != 0) {
    // The client has said why the capture failed; that the driver has ended it as well is all that counts here.
    if (graph != nullptr && !was_application_s) DestroyGraph(call, graph, known, nullptr);
    return call.Finish(CUDA_SUCCESS, reply);
  }
  if (result != CUDA_SUCCESS) return call.Finish(result);
  reply.graph = known;
  if (known.is_null()) {
    call.New(request.graph, graph);
    reply.graph = request.graph;
  }
  call.Finish(result, reply);
}

void Do_cuStreamGetCaptureInfo_v2(CallContext& call, const cuStreamGetCaptureInfo_v2Request& request) {
  Info<cuStreamGetCaptureInfo_v2Reply>(call, request);
}

void Do_cuStreamGetCaptureInfo_v3(CallContext& call, const cuStreamGetCaptureInfo_v3Request& request) {
  Info<cuStreamGetCaptureInfo_v3Reply>(call, request);
}

void Do_cuStreamUpdateCaptureDependencies(CallContext& call, const cuStreamUpdateCaptureDependenciesRequest& request) {
  Update(call, request);
}

void Do_cuStreamUpdateCaptureDependencies_v2(CallContext& call, const cuStreamUpdateCaptureDependencies_v2Request& request) {
  Update(call, request);
}

}  // namespace tessera
