// The client's own work at a point of a stream, or as part of a captured copy.

#include <vector>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/graphs/host_copy_node.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/streams/stream_visits.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

CUresult Enqueue(CallContext& call, const tesseraStreamVisitRequest& request, CUstream stream) {
  if (!call.ok()) return call.error();
  WrittenRange written;
  if (request.written_bytes != 0) written = WrittenAt(call, request.written_address, request.written_bytes);
  return call.worker().parts().stream_visits().Enqueue(call, request.stream, stream, request.function, written,
                                                       request.ahead == 0);
}

}  // namespace

void Do_tesseraStreamVisit(CallContext& call, const tesseraStreamVisitRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  const bool visit = request.function != 0;
  CUresult result = visit ? Enqueue(call, request, stream) : call.error();
  // Somebody may wait for the visit, on another server for instance.
  if (visit && result != CUDA_SUCCESS) call.worker().SendNotice(NoticeKind::kHostFunctionReleased, request.function);
  if (result == CUDA_SUCCESS) {
    result = call.worker().parts().stream_visits().Await(call, request.stream, stream, request.ahead);
    if (result != CUDA_SUCCESS) call.worker().gate().held_streams().StreamGoes();  // as nothing holds it
  }
  call.Finish(result);
}

void Do_tesseraCaptureHostCopy(CallContext& call, const tesseraCaptureHostCopyRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  const DriverTable& driver = call.driver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 0;
  // The form without edges refuses (lossy query) edges that a child graph could not have.
  CUresult result = driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count);
  if (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (result != CUDA_SUCCESS) return call.Finish(result);
  const std::vector<CUgraphNode> before(dependencies, dependencies + count);
  CUgraphNode node = nullptr;
  if (!AddHostCopyNode(call, graph, before, request.params, &node)) return;
  call.Finish(driver.cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

}  // namespace tessera
