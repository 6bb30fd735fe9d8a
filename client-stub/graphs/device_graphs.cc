#include "client-stub/graphs/device_graphs.h"

#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/session/session.h"
#include "generated/messages/service.h"
#include "protocol/base/log.h"

namespace tessera {

HandleId MintGraphExec(Call& call) {
  const HandleId id = call.Mint(HandleKind::kGraphExec);
  return DeviceGraphs::Process().Has(id.value()) ? call.Mint(HandleKind::kGraphExec) : id;
}

CUresult StoreGraphExec(Call& call, HandleId exec, uint64_t device_graph, CUgraphExec* out) {
  uint64_t handle = exec.value();
  if (device_graph != 0) {
    handle = device_graph;
    if (!DeviceGraphs::Process().Add(device_graph, exec, call.owner_context())) {
      LogWarning(
          "{}: {} gave a graph for kernels to launch the handle {:#x}, which another graph of this process has; use one server",
          call.info().name, call.session().Name(), device_graph);
      tesseraDeviceGraphDestroyRequest request;
      request.exec = exec;
      call.SyncAs(request);
      return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
    }
  }
  *out = reinterpret_cast<CUgraphExec>(handle);
  return CUDA_SUCCESS;
}

CUresult DestroyDeviceGraph(Call& call, CUgraphExec handle) {
  if (!call.ok()) return call.result();
  tesseraDeviceGraphDestroyRequest request;
  request.exec = call.Free(HandleKind::kGraphExec, handle);
  if (!call.ok()) return call.result();
  const auto value = reinterpret_cast<uint64_t>(handle);
  const bool device_graph = DeviceGraphs::Process().Has(handle);
  // Removed before the driver may give the value to a new graph, which another thread may enter.
  DeviceGraphs::Process().Remove(value, request.exec);
  GraphExecs().Erase(request.exec);
  const CUresult result = call.SyncAs(request);
  if (result != CUDA_SUCCESS && device_graph) DeviceGraphs::Process().Add(value, request.exec, call.owner_context());
  return result;
}

}  // namespace tessera
