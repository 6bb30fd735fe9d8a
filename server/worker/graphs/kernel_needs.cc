#include "server/worker/graphs/kernel_needs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "server/worker/code/layout_table.h"
#include "server/worker/graphs/graph_handles.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// No graph of the session needs a look: no kernel needs more than all its contexts have of their own.
bool NeedsNoLook(CallContext& call) {
  const uint32_t largest_bytes = call.worker().parts().layouts().largest_local_bytes();
  if (largest_bytes == 0) return true;
  std::vector<HandleId> contexts;
  call.worker().objects().ForEach(HandleKind::kContext, [&](HandleId id, uint64_t) { contexts.push_back(id); });
  return std::all_of(contexts.begin(), contexts.end(),
                     [&](HandleId context) { return IsOwnLocalMemory(call, context, largest_bytes); });
}

// Those for which something is to be counted.
LocalNeeds Counted(CallContext& call, LocalNeeds needs) {
  std::erase_if(needs, [&](const auto& need) { return IsOwnLocalMemory(call, need.first, need.second); });
  call.worker().SetContext(call.header());
  return needs;
}

HandleId ContextOf(CallContext& call, CUcontext context) {
  ObjectTable& objects = call.worker().objects();
  HandleId id = objects.HandleOf(HandleKind::kContext, reinterpret_cast<uint64_t>(context));
  if (id.is_null()) id = HandleId(call.header().context);
  // A thread without a context may change graphs as well.
  if (id.is_null()) objects.ForEach(HandleKind::kContext, [&](HandleId any, uint64_t) { id = any; });
  return id;
}

void AddKernel(CallContext& call, const CUDA_KERNEL_NODE_PARAMS& params, LocalNeeds* needs) {
  const DriverTable& driver = call.driver();
  const HandleId context = ContextOf(call, params.ctx);
  int bytes = 0;
  CUdevice device = 0;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (params.func != nullptr) {
    result = driver.cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, params.func);
  } else if (params.kern != nullptr && call.worker().SetContext(context) == CUDA_SUCCESS &&
             driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    result = driver.cuKernelGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, params.kern, device);
  }
  if (result != CUDA_SUCCESS || bytes <= 0) return;
  uint64_t& most = (*needs)[context];
  most = std::max<uint64_t>(most, static_cast<uint64_t>(bytes));
}

bool ParamsOf(const DriverTable& driver, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  if (driver.cuGraphKernelNodeGetParams_v2 != nullptr) return driver.cuGraphKernelNodeGetParams_v2(node, params) == CUDA_SUCCESS;
  CUDA_KERNEL_NODE_PARAMS_v1 old{};
  if (driver.cuGraphKernelNodeGetParams == nullptr || driver.cuGraphKernelNodeGetParams(node, &old) != CUDA_SUCCESS) return false;
  params->func = old.func;
  return true;
}

void AddGraph(CallContext& call, CUgraph graph, LocalNeeds* needs) {
  const DriverTable& driver = call.driver();
  std::vector<CUgraphNode> nodes;
  if (ListNodes(call, graph, false, &nodes) != CUDA_SUCCESS) return;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    CUDA_KERNEL_NODE_PARAMS params{};
    CUgraph child = nullptr;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL && ParamsOf(driver, node, &params)) AddKernel(call, params, needs);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      AddGraph(call, child, needs);
    }
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      for (CUgraph body : call.worker().parts().conditional_bodies().Of(node)) AddGraph(call, body, needs);
    }
  }
}

}  // namespace

LocalNeeds NeedsOfGraph(CallContext& call, CUgraph graph) {
  LocalNeeds needs;
  if (!NeedsNoLook(call)) AddGraph(call, graph, &needs);
  return Counted(call, std::move(needs));
}

LocalNeeds NeedsOfKernel(CallContext& call, const CUDA_KERNEL_NODE_PARAMS& params) {
  LocalNeeds needs;
  AddKernel(call, params, &needs);
  return Counted(call, std::move(needs));
}

}  // namespace tessera
