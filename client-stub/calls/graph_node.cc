// Graph nodes with parameters, a call for each kind: kernels, copies, sets, host functions, memory operations. Calls for
// nodes of any kind: graph_any_node.cc.

#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/call/describe_function.h"
#include "client-stub/code/function_info.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/graphs/graph_node_calls.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/host_functions.h"
#include "generated/client_custom.h"
#include "protocol/wire/graph_params.h"

namespace tessera {
namespace {

// --- Kernels. The older struct has no `kern` and `ctx`. ---

CUDA_KERNEL_NODE_PARAMS Upgrade(const CUDA_KERNEL_NODE_PARAMS_v1& old) {
  return {old.func,      old.gridDimX,       old.gridDimY,     old.gridDimZ, old.blockDimX, old.blockDimY,
          old.blockDimZ, old.sharedMemBytes, old.kernelParams, old.extra,    nullptr,       nullptr};
}
CUDA_KERNEL_NODE_PARAMS Upgrade(const CUDA_KERNEL_NODE_PARAMS& params) { return params; }

void Downgrade(const CUDA_KERNEL_NODE_PARAMS& params, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  *out = {params.func,      params.gridDimX,  params.gridDimY,       params.gridDimZ,     params.blockDimX,
          params.blockDimY, params.blockDimZ, params.sharedMemBytes, params.kernelParams, params.extra};
}
void Downgrade(const CUDA_KERNEL_NODE_PARAMS& params, CUDA_KERNEL_NODE_PARAMS* out) { *out = params; }

template <typename Request, typename Reply, typename Params>
CUresult AddKernel(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                   const Params* params) {
  return AddNode<Request, Reply>(call, node, graph, dependencies, count, params,
                                 [&](NodeMessage* message) { return EncodeKernelNode(call, Upgrade(*params), message); });
}

template <typename Request, typename Reply, typename Params>
CUresult GetKernel(Call& call, CUgraphNode node, Params* params) {
  KernelNodeRecord record;
  std::vector<std::byte> packed;
  const CUresult result = GetNode<Request, Reply>(call, node, params, &record, &packed);
  if (result != CUDA_SUCCESS) return result;
  call.Adopt(record.function);
  call.Adopt(record.kernel);
  CUDA_KERNEL_NODE_PARAMS out{};
  out.func = ToObject<CUfunction>(record.function);
  out.kern = ToObject<CUkernel>(record.kernel);
  const Context* context = call.session().contexts().Find(ToObject<CUcontext>(record.context));
  if (context == nullptr) context = call.current_context();
  if (context != nullptr) out.ctx = context->object();
  const FunctionInfo* info = out.func != nullptr ? DescribeFunction(call, out.func) : DescribeKernel(call, out.kern);
  if (info == nullptr) return call.ok() ? call.Fail(CUDA_ERROR_INVALID_HANDLE) : call.result();
  if (packed.size() != info->parameter_bytes) return call.MalformedReply();
  out.gridDimX = record.grid[0];
  out.gridDimY = record.grid[1];
  out.gridDimZ = record.grid[2];
  out.blockDimX = record.block[0];
  out.blockDimY = record.block[1];
  out.blockDimZ = record.block[2];
  out.sharedMemBytes = record.shared_bytes;
  out.kernelParams = NodeParametersOfProcess().Keep(HandleId(reinterpret_cast<uint64_t>(node)), *info, packed);
  Downgrade(out, params);
  return CUDA_SUCCESS;
}

template <typename Request, typename Params>
CUresult SetKernel(Call& call, CUgraphNode node, const Params* params) {
  return SetNode<Request>(call, node, params,
                          [&](NodeMessage* message) { return EncodeKernelNode(call, Upgrade(*params), message); });
}

template <typename Request, typename Params>
CUresult SetExecKernel(Call& call, CUgraphExec exec, CUgraphNode node, const Params* params) {
  return SetExecNode<Request>(call, exec, node, params,
                              [&](NodeMessage* message) { return EncodeKernelNode(call, Upgrade(*params), message); });
}

}  // namespace

CUresult Custom_cuGraphAddKernelNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return AddKernel<cuGraphAddKernelNodeRequest, cuGraphAddKernelNodeReply>(call, phGraphNode, hGraph, dependencies,
                                                                           numDependencies, nodeParams);
}
CUresult Custom_cuGraphAddKernelNode_v2(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                        size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return AddKernel<cuGraphAddKernelNode_v2Request, cuGraphAddKernelNode_v2Reply>(call, phGraphNode, hGraph, dependencies,
                                                                                 numDependencies, nodeParams);
}
CUresult Custom_cuGraphKernelNodeGetParams(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return GetKernel<cuGraphKernelNodeGetParamsRequest, cuGraphKernelNodeGetParamsReply>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphKernelNodeGetParams_v2(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return GetKernel<cuGraphKernelNodeGetParams_v2Request, cuGraphKernelNodeGetParams_v2Reply>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphKernelNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return SetKernel<cuGraphKernelNodeSetParamsRequest>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphKernelNodeSetParams_v2(Call& call, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return SetKernel<cuGraphKernelNodeSetParams_v2Request>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphExecKernelNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return SetExecKernel<cuGraphExecKernelNodeSetParamsRequest>(call, hGraphExec, hNode, nodeParams);
}
CUresult Custom_cuGraphExecKernelNodeSetParams_v2(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return SetExecKernel<cuGraphExecKernelNodeSetParams_v2Request>(call, hGraphExec, hNode, nodeParams);
}

CUresult Custom_cuGraphAddMemcpyNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  return AddNode<cuGraphAddMemcpyNodeRequest, cuGraphAddMemcpyNodeReply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, copyParams,
      [&](NodeMessage* message) { return EncodeMemcpyNode(call, *copyParams, ctx, message); });
}

CUresult Custom_cuGraphMemcpyNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  MemcpyNodeRecord record;
  const CUresult result =
      GetNode<cuGraphMemcpyNodeGetParamsRequest, cuGraphMemcpyNodeGetParamsReply>(call, hNode, nodeParams, &record);
  if (result != CUDA_SUCCESS) return result;
  const MemcpyNodeRecord::End& source = record.source;
  const MemcpyNodeRecord::End& destination = record.destination;
  call.Adopt(source.array);
  call.Adopt(destination.array);
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = source.x_bytes;
  copy.srcY = source.y;
  copy.srcZ = source.z;
  copy.srcLOD = source.lod;
  copy.srcMemoryType = static_cast<CUmemorytype>(source.type);
  if (source.type == CU_MEMORYTYPE_HOST) copy.srcHost = reinterpret_cast<const void*>(source.address);
  if (source.type == CU_MEMORYTYPE_DEVICE || source.type == CU_MEMORYTYPE_UNIFIED) copy.srcDevice = source.address;
  copy.srcArray = ToObject<CUarray>(source.array);
  copy.srcPitch = source.pitch;
  copy.srcHeight = source.height;
  copy.dstXInBytes = destination.x_bytes;
  copy.dstY = destination.y;
  copy.dstZ = destination.z;
  copy.dstLOD = destination.lod;
  copy.dstMemoryType = static_cast<CUmemorytype>(destination.type);
  if (destination.type == CU_MEMORYTYPE_HOST) copy.dstHost = reinterpret_cast<void*>(destination.address);
  if (destination.type == CU_MEMORYTYPE_DEVICE || destination.type == CU_MEMORYTYPE_UNIFIED) {
    copy.dstDevice = destination.address;
  }
  copy.dstArray = ToObject<CUarray>(destination.array);
  copy.dstPitch = destination.pitch;
  copy.dstHeight = destination.height;
  copy.WidthInBytes = record.width_bytes;
  copy.Height = record.height;
  copy.Depth = record.depth;
  *nodeParams = copy;
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphMemcpyNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  return SetNode<cuGraphMemcpyNodeSetParamsRequest>(
      call, hNode, nodeParams, [&](NodeMessage* message) { return EncodeMemcpyNode(call, *nodeParams, nullptr, message); });
}

CUresult Custom_cuGraphExecMemcpyNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  return SetExecNode<cuGraphExecMemcpyNodeSetParamsRequest>(call, hGraphExec, hNode, copyParams, [&](NodeMessage* message) {
    return EncodeMemcpyNode(call, *copyParams, ctx, message);
  });
}

CUresult Custom_cuGraphAddMemsetNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  return AddNode<cuGraphAddMemsetNodeRequest, cuGraphAddMemsetNodeReply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, memsetParams,
      [&](NodeMessage* message) { return EncodeMemsetNode(call, *memsetParams, ctx, message); });
}

CUresult Custom_cuGraphMemsetNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  MemsetNodeRecord record;
  const CUresult result =
      GetNode<cuGraphMemsetNodeGetParamsRequest, cuGraphMemsetNodeGetParamsReply>(call, hNode, nodeParams, &record);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t address = call.session().memory().Original(record.address);
  *nodeParams = {address, record.pitch, record.value, record.element_bytes, record.width, record.height};
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphMemsetNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return SetNode<cuGraphMemsetNodeSetParamsRequest>(
      call, hNode, nodeParams, [&](NodeMessage* message) { return EncodeMemsetNode(call, *nodeParams, nullptr, message); });
}

CUresult Custom_cuGraphExecMemsetNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  return SetExecNode<cuGraphExecMemsetNodeSetParamsRequest>(call, hGraphExec, hNode, memsetParams, [&](NodeMessage* message) {
    return EncodeMemsetNode(call, *memsetParams, ctx, message);
  });
}

CUresult Custom_cuGraphAddBatchMemOpNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                         size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return AddNode<cuGraphAddBatchMemOpNodeRequest, cuGraphAddBatchMemOpNodeReply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, nodeParams,
      [&](NodeMessage* message) { return EncodeMemOpNode(call, *nodeParams, message); });
}

CUresult Custom_cuGraphBatchMemOpNodeGetParams(Call& call, CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
  MemOpNodeRecord record;
  std::vector<CUstreamBatchMemOpParams> operations;
  const CUresult result = GetNode<cuGraphBatchMemOpNodeGetParamsRequest, cuGraphBatchMemOpNodeGetParamsReply>(
      call, hNode, nodeParams_out, &record, &operations);
  if (result != CUDA_SUCCESS) return result;
  if (operations.size() != record.count) return call.MalformedReply();
  const HandleId node(reinterpret_cast<uint64_t>(hNode));
  *nodeParams_out = {ToObject<CUcontext>(record.context), record.count,
                     NodeParametersOfProcess().KeepArray<CUstreamBatchMemOpParams>(node, operations), record.flags};
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphBatchMemOpNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return SetNode<cuGraphBatchMemOpNodeSetParamsRequest>(
      call, hNode, nodeParams, [&](NodeMessage* message) { return EncodeMemOpNode(call, *nodeParams, message); });
}

CUresult Custom_cuGraphExecBatchMemOpNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return SetExecNode<cuGraphExecBatchMemOpNodeSetParamsRequest>(
      call, hGraphExec, hNode, nodeParams, [&](NodeMessage* message) { return EncodeMemOpNode(call, *nodeParams, message); });
}

CUresult Custom_cuGraphAddHostNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return AddNode<cuGraphAddHostNodeRequest, cuGraphAddHostNodeReply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, nodeParams,
      [&](NodeMessage* message) { return EncodeHostNode(call, *nodeParams, message); });
}

CUresult Custom_cuGraphHostNodeGetParams(Call& call, CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  HostNodeRecord record{};
  HostFunction function;
  const CUresult result =
      GetNode<cuGraphHostNodeGetParamsRequest, cuGraphHostNodeGetParamsReply>(call, hNode, nodeParams, &record);
  if (result != CUDA_SUCCESS) return result;
  if (!HostFunctionsOfProcess().Find(record.function, &function)) return call.MalformedReply();
  *nodeParams = {function.function, function.user_data};
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphHostNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return SetNode<cuGraphHostNodeSetParamsRequest>(
      call, hNode, nodeParams, [&](NodeMessage* message) { return EncodeHostNode(call, *nodeParams, message); });
}

CUresult Custom_cuGraphExecHostNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return SetExecNode<cuGraphExecHostNodeSetParamsRequest>(
      call, hGraphExec, hNode, nodeParams, [&](NodeMessage* message) { return EncodeHostNode(call, *nodeParams, message); });
}

}  // namespace tessera
