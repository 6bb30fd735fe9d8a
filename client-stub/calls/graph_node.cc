// Graph nodes with parameters: kernels, copies, host functions.

#include <cstring>
#include <utility>
#include <vector>

#include "client-stub/function_info.h"
#include "client-stub/graph_nodes.h"
#include "client-stub/graph_shadow.h"
#include "client-stub/host_functions.h"
#include "client-stub/kernel_params.h"
#include "client-stub/session.h"
#include "client-stub/stream_state.h"
#include "client-stub/thread_state.h"
#include "generated/client_custom.h"
#include "protocol/codegen/client_support.h"
#include "protocol/wire/graph_params.h"

namespace tessera {
namespace {

template <typename Record>
std::span<const std::byte> BytesOf(const Record& record) {
  return std::as_bytes(std::span(&record, 1));
}

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

bool EncodeKernel(Call& call, const CUDA_KERNEL_NODE_PARAMS& params, std::vector<std::byte>* bytes) {
  KernelNodeRecord record{};
  const FunctionInfo* info = nullptr;
  if (params.func != nullptr) {
    // A kernel in place of a function is legal in launches, but not here (driver 580.159).
    record.function = call.Use(HandleKind::kFunction, params.func);
    if (call.ok()) info = DescribeFunction(call, params.func);
  } else {
    record.kernel = call.Use(HandleKind::kKernel, params.kern);
    record.context = call.Use(HandleKind::kContext, params.ctx, true);
    if (call.ok()) info = DescribeKernel(call, params.kern);
  }
  if (!call.ok()) return false;
  if (info == nullptr) return call.Fail(CUDA_ERROR_INVALID_HANDLE) == CUDA_SUCCESS;
  std::vector<std::byte> packed;
  if (call.Fail(PackKernelParams(*info, params.kernelParams, params.extra, &packed)) != CUDA_SUCCESS) return false;
  record.grid[0] = params.gridDimX;
  record.grid[1] = params.gridDimY;
  record.grid[2] = params.gridDimZ;
  record.block[0] = params.blockDimX;
  record.block[1] = params.blockDimY;
  record.block[2] = params.blockDimZ;
  record.shared_bytes = params.sharedMemBytes;
  bytes->resize(sizeof(record) + packed.size());
  std::memcpy(bytes->data(), &record, sizeof(record));
  if (!packed.empty()) std::memcpy(bytes->data() + sizeof(record), packed.data(), packed.size());
  return true;
}

// What every call that adds a node sends: `encode` fills the parameters.
template <typename Request, typename Reply, typename Encode>
CUresult AddNode(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                 const void* params, Encode encode) {
  if (!call.ok()) return call.result();
  if (node == nullptr || params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  std::vector<HandleId> ids;
  std::vector<std::byte> bytes;
  request.graph = call.Use(HandleKind::kGraph, graph);
  if (!call.ok() || !UseNodes(call, dependencies, count, &ids) || !encode(&bytes)) return call.result();
  request.dependencies.Borrow(ids);
  request.params = bytes;
  request.node = call.Mint(HandleKind::kGraphNode);
  if (!call.ok()) return call.result();
  Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *node = ToObject<CUgraphNode>(request.node);
  return result;
}

template <typename Request, typename Encode>
CUresult SetNode(Call& call, CUgraphNode node, const void* params, Encode encode) {
  if (!call.ok()) return call.result();
  if (params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  std::vector<std::byte> bytes;
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok() || !encode(&bytes)) return call.result();
  request.params = bytes;
  return call.Sync(request);
}

template <typename Request, typename Encode>
CUresult SetExecNode(Call& call, CUgraphExec exec, CUgraphNode node, const void* params, Encode encode) {
  if (!call.ok()) return call.result();
  if (params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  std::vector<std::byte> bytes;
  request.exec = call.Use(HandleKind::kGraphExec, exec);
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok() || !encode(&bytes)) return call.result();
  request.params = bytes;
  if (GraphExecInfo* info = GraphExecs().Find(request.exec)) info->launched.store(false, std::memory_order_relaxed);
  return call.Sync(request);
}

template <typename Request, typename Reply, typename Params>
CUresult AddKernel(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                   const Params* params) {
  return AddNode<Request, Reply>(call, node, graph, dependencies, count, params, [&](std::vector<std::byte>* bytes) {
    return EncodeKernel(call, Upgrade(*params), bytes);
  });
}

template <typename Request, typename Reply, typename Params>
CUresult GetKernel(Call& call, CUgraphNode node, Params* params) {
  if (!call.ok()) return call.result();
  if (params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok()) return call.result();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  KernelNodeRecord record;
  if (reply.params.size() < sizeof(record)) return call.MalformedReply();
  std::memcpy(&record, reply.params.data(), sizeof(record));
  // Describing a function may ask the server, which ends the reply's life.
  const std::vector<std::byte> packed(reply.params.begin() + sizeof(record), reply.params.end());
  call.Adopt(record.function);
  call.Adopt(record.kernel);
  CUDA_KERNEL_NODE_PARAMS out{};
  out.func = ToObject<CUfunction>(record.function);
  out.kern = ToObject<CUkernel>(record.kernel);
  const Context* context = call.session().contexts().Find(ToObject<CUcontext>(record.context));
  if (context == nullptr) context = call.thread().current();
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
  out.kernelParams = NodeParametersOfProcess().Keep(request.node, *info, packed);
  Downgrade(out, params);
  return CUDA_SUCCESS;
}

template <typename Request, typename Params>
CUresult SetKernel(Call& call, CUgraphNode node, const Params* params) {
  return SetNode<Request>(call, node, params, [&](std::vector<std::byte>* bytes) {
    return EncodeKernel(call, Upgrade(*params), bytes);
  });
}

template <typename Request, typename Params>
CUresult SetExecKernel(Call& call, CUgraphExec exec, CUgraphNode node, const Params* params) {
  return SetExecNode<Request>(call, exec, node, params, [&](std::vector<std::byte>* bytes) {
    return EncodeKernel(call, Upgrade(*params), bytes);
  });
}

bool EncodeCopy(CopyNodeParams& params, const CUDA_MEMCPY3D& copy, CUcontext context, std::vector<std::byte>* bytes) {
  if (!params.Encode(copy, context)) return false;
  *bytes = params.bytes();
  return true;
}

// --- Host functions. ---

bool EncodeHost(Call& call, const CUDA_HOST_NODE_PARAMS& params, std::vector<std::byte>* bytes) {
  if (params.fn == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS;
  AttachStreams(call.session());
  const HostNodeRecord record{
      HostFunctionsOfProcess().Add({.function = params.fn, .user_data = params.userData, .repeats = true})};
  const auto encoded = BytesOf(record);
  bytes->assign(encoded.begin(), encoded.end());
  return true;
}

}  // namespace

CUresult Custom_cuGraphAddKernelNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies, size_t numDependencies,
                                     const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return AddKernel<cuGraphAddKernelNodeRequest, cuGraphAddKernelNodeReply>(call, phGraphNode, hGraph, dependencies,
                                                                           numDependencies, nodeParams);
}
CUresult Custom_cuGraphAddKernelNode_v2(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies, size_t numDependencies,
                                        const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return AddKernel<cuGraphAddKernelNode_v2Request, cuGraphAddKernelNode_v2Reply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}
CUresult Custom_cuGraphKernelNodeGetParams(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return GetKernel<cuGraphKernelNodeGetParamsRequest, cuGraphKernelNodeGetParamsReply>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphKernelNodeGetParams_v2(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return GetKernel<cuGraphKernelNodeGetParams_v2Request, cuGraphKernelNodeGetParams_v2Reply>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphKernelNodeSetParams(Call& call, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return SetKernel<cuGraphKernelNodeSetParamsRequest>(call, hNode, nodeParams);
}
CUresult Custom_cuGraphKernelNodeSetParams_v2(Call& call, CUgraphNode hNode,
                                              const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
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

CUresult Custom_cuGraphAddMemcpyNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies, size_t numDependencies,
                                     const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  CopyNodeParams params(call);
  const CUresult result = AddNode<cuGraphAddMemcpyNodeRequest, cuGraphAddMemcpyNodeReply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, copyParams,
      [&](std::vector<std::byte>* bytes) { return EncodeCopy(params, *copyParams, ctx, bytes); });
  if (result == CUDA_SUCCESS) params.Keep();
  return result;
}

CUresult Custom_cuGraphMemcpyNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  if (!call.ok()) return call.result();
  if (nodeParams == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphMemcpyNodeGetParamsRequest request;
  request.node = call.Use(HandleKind::kGraphNode, hNode);
  if (!call.ok()) return call.result();
  cuGraphMemcpyNodeGetParamsReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  MemcpyNodeRecord record;
  if (reply.params.size() != sizeof(record)) return call.MalformedReply();
  std::memcpy(&record, reply.params.data(), sizeof(record));
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
  CopyNodeParams params(call);
  const CUresult result =
      SetNode<cuGraphMemcpyNodeSetParamsRequest>(call, hNode, nodeParams, [&](std::vector<std::byte>* bytes) {
        return EncodeCopy(params, *nodeParams, nullptr, bytes);
      });
  if (result == CUDA_SUCCESS) params.Keep();
  return result;
}

CUresult Custom_cuGraphExecMemcpyNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  CopyNodeParams params(call);
  const CUresult result = SetExecNode<cuGraphExecMemcpyNodeSetParamsRequest>(
      call, hGraphExec, hNode, copyParams,
      [&](std::vector<std::byte>* bytes) { return EncodeCopy(params, *copyParams, ctx, bytes); });
  if (result == CUDA_SUCCESS) params.Keep();
  return result;
}

CUresult Custom_cuGraphAddHostNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return AddNode<cuGraphAddHostNodeRequest, cuGraphAddHostNodeReply>(
      call, phGraphNode, hGraph, dependencies, numDependencies, nodeParams,
      [&](std::vector<std::byte>* bytes) { return EncodeHost(call, *nodeParams, bytes); });
}

CUresult Custom_cuGraphHostNodeGetParams(Call& call, CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  if (!call.ok()) return call.result();
  if (nodeParams == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphHostNodeGetParamsRequest request;
  request.node = call.Use(HandleKind::kGraphNode, hNode);
  if (!call.ok()) return call.result();
  cuGraphHostNodeGetParamsReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  HostNodeRecord record;
  HostFunction function;
  if (reply.params.size() != sizeof(record)) return call.MalformedReply();
  std::memcpy(&record, reply.params.data(), sizeof(record));
  if (!HostFunctionsOfProcess().Find(record.function, &function)) return call.MalformedReply();
  *nodeParams = {function.function, function.user_data};
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphHostNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return SetNode<cuGraphHostNodeSetParamsRequest>(
      call, hNode, nodeParams, [&](std::vector<std::byte>* bytes) { return EncodeHost(call, *nodeParams, bytes); });
}

CUresult Custom_cuGraphExecHostNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return SetExecNode<cuGraphExecHostNodeSetParamsRequest>(
      call, hGraphExec, hNode, nodeParams,
      [&](std::vector<std::byte>* bytes) { return EncodeHost(call, *nodeParams, bytes); });
}

}  // namespace tessera
