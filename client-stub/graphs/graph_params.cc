#include "client-stub/graphs/graph_params.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "client-stub/call/call.h"
#include "client-stub/call/describe_function.h"
#include "client-stub/code/function_info.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_location.h"
#include "client-stub/memory/host_pool_calls.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/memory/memory_operations.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/stream_state.h"
#include "protocol/base/log.h"
#include "protocol/wire/graph_params.h"

namespace tessera {
namespace {

// The most operations of one batch (CUDA Driver API, cuStreamBatchMemOp).
constexpr unsigned kMemOpsMax = 256;

bool Refuse(Call& call, CUresult result) { return call.Fail(result) == CUDA_SUCCESS; }

// Stores a record and the elements that follow it. Always true.
template <typename Record, typename Element = std::byte>
bool Store(NodeMessage* message, const Record& record, std::span<const Element> elements = {}) {
  const auto head = std::as_bytes(std::span(&record, 1));
  const auto tail = std::as_bytes(elements);
  message->bytes.assign(head.begin(), head.end());
  message->bytes.insert(message->bytes.end(), tail.begin(), tail.end());
  return true;
}

size_t UsedBytes(const CUgraphNodeParams& params) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return sizeof(params.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return sizeof(params.memcpy);
    case CU_GRAPH_NODE_TYPE_MEMSET: return sizeof(params.memset);
    case CU_GRAPH_NODE_TYPE_HOST: return sizeof(params.host);
    case CU_GRAPH_NODE_TYPE_GRAPH: return sizeof(params.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return sizeof(params.eventWait);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return sizeof(params.eventRecord);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: return sizeof(params.extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return sizeof(params.extSemWait);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return sizeof(params.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return sizeof(params.free);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return sizeof(params.memOp);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return sizeof(params.conditional);
    default: return 0;
  }
}

// Whether all bytes that this kind of node does not use are zero, as the driver demands (measured).
bool UnusedIsZero(const CUgraphNodeParams& params) {
  const auto is_zero = [](auto value) { return value == decltype(value){}; };
  const auto whole = std::as_bytes(std::span(params.reserved1));
  const auto unused = whole.subspan(UsedBytes(params));
  return params.reserved2 == 0 && std::all_of(std::begin(params.reserved0), std::end(params.reserved0), is_zero) &&
         std::all_of(unused.begin(), unused.end(), is_zero);
}

// Null means the calling thread's context. The client fills it in, since the server's thread that makes the node may have
// another.
CUcontext OrCurrent(Call& call, CUcontext context) {
  return context != nullptr ? context : reinterpret_cast<CUcontext>(call.context().value());
}

}  // namespace

NodeMessage::~NodeMessage() {
  for (uint64_t function : functions_) HostFunctionsOfProcess().Drop(function);
}

void NodeMessage::Sent() {
  functions_.clear();
  if (copy_ != nullptr) copy_->Keep();
}

CopyNodeParams& NodeMessage::Copy(Call& call) {
  copy_ = std::make_unique<CopyNodeParams>(call);
  return *copy_;
}

bool EncodeKernelNode(Call& call, const CUDA_KERNEL_NODE_PARAMS& params, NodeMessage* message) {
  KernelNodeRecord record{};
  const FunctionInfo* info = nullptr;
  if (params.func != nullptr) {
    // Launches accept a CUkernel in place of a CUfunction, but this field does not (driver 580.159).
    record.function = call.Use(HandleKind::kFunction, params.func);
    if (call.ok()) info = DescribeFunction(call, params.func);
  } else {
    record.kernel = call.Use(HandleKind::kKernel, params.kern);
    record.context = call.Use(HandleKind::kContext, params.ctx, true);
    if (call.ok()) info = DescribeKernel(call, params.kern);
  }
  if (!call.ok()) return false;
  if (info == nullptr) return Refuse(call, CUDA_ERROR_INVALID_HANDLE);
  std::vector<std::byte> packed;
  if (call.Fail(PackKernelParams(*info, params.kernelParams, params.extra, &packed)) != CUDA_SUCCESS) return false;
  if (call.session().memory().mirrors().OpenSeen(call, packed) != CUDA_SUCCESS) return false;
  record.grid[0] = params.gridDimX;
  record.grid[1] = params.gridDimY;
  record.grid[2] = params.gridDimZ;
  record.block[0] = params.blockDimX;
  record.block[1] = params.blockDimY;
  record.block[2] = params.blockDimZ;
  record.shared_bytes = params.sharedMemBytes;
  return Store(message, record, std::span<const std::byte>(packed));
}

bool EncodeMemcpyNode(Call& call, const CUDA_MEMCPY3D& copy, CUcontext context, NodeMessage* message) {
  CopyNodeParams& params = message->Copy(call);
  if (!params.Encode(copy, context)) return false;
  message->bytes = params.bytes();
  return true;
}

bool CheckSet(Call& call, const CUDA_MEMSET_NODE_PARAMS& set, Place* place) {
  uint64_t row_bytes = 0;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(set.width, set.elementSize, &row_bytes) ||
      __builtin_mul_overflow(std::max<size_t>(set.height, 1) - 1, set.pitch, &bytes) ||
      __builtin_add_overflow(bytes, row_bytes, &bytes)) {
    return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  }
  bytes = std::max<uint64_t>(bytes, 1);
  *place = CheckMemory(call, set.dst, bytes);
  const bool usable = *place == Place::kDevice || *place == Place::kPinned || *place == Place::kPrivate;
  return usable || RefuseMemory(call, set.dst, bytes) == CUDA_SUCCESS;
}

bool EncodeMemsetNode(Call& call, const CUDA_MEMSET_NODE_PARAMS& set, CUcontext context, NodeMessage* message) {
  MemsetNodeRecord record{
      set.dst, set.pitch, set.value, set.elementSize, set.width, set.height, call.Use(HandleKind::kContext, context, true)};
  if (!call.ok()) return false;
  Place place = Place::kInvalid;
  if (!CheckSet(call, set, &place)) return false;
  if (place == Place::kPrivate && !ReachForDevice(call, &record.address)) return false;
  return Store(message, record);
}

bool EncodeHostNode(Call& call, const CUDA_HOST_NODE_PARAMS& params, NodeMessage* message) {
  if (params.fn == nullptr) return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  const HostNodeRecord record{
      HostFunctionsOfProcess().Add({.function = params.fn, .user_data = params.userData, .repeats = true})};
  message->Owns(record.function);
  return Store(message, record);
}

bool EncodeMemOpNode(Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, NodeMessage* message) {
  if (params.count > kMemOpsMax || (params.count != 0 && params.paramArray == nullptr)) {
    return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  }
  const std::vector<CUstreamBatchMemOpParams> operations = ReachMemOps(call, std::span(params.paramArray, params.count), true);
  const MemOpNodeRecord record{call.Use(HandleKind::kContext, params.ctx, true), params.count, params.flags};
  return call.ok() && Store(message, record, std::span<const CUstreamBatchMemOpParams>(operations));
}

bool EncodeAllocNode(Call& call, const CUDA_MEM_ALLOC_NODE_PARAMS& params, NodeMessage* message) {
  // More descriptors than devices are an error (CUDA Driver API, cuGraphAddMemAllocNode).
  if (params.accessDescCount > static_cast<size_t>(call.session().devices().count()) ||
      (params.accessDescCount != 0 && params.accessDescs == nullptr)) {
    return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  }
  const CUmemPoolProps& pool = params.poolProps;
  if (!std::all_of(std::begin(pool.reserved), std::end(pool.reserved), [](unsigned char byte) { return byte == 0; })) {
    return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  }
  // Graphs get device memory only. The server's driver would allocate any other on its own host.
  if (IsHostLocation(pool.location) || pool.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) {
    return Refuse(call, CUDA_ERROR_NOT_SUPPORTED);
  }
  std::vector<CUmemAccessDesc> access;
  for (size_t i = 0; i < params.accessDescCount; ++i) access.push_back(call.DeviceNumbers(params.accessDescs[i]));
  const CUmemLocation location = call.DeviceNumbers(pool.location);
  if (!call.ok()) return false;
  const AllocNodeRecord record{static_cast<uint32_t>(pool.allocType),
                               static_cast<uint32_t>(pool.handleTypes),
                               static_cast<uint32_t>(location.type),
                               location.id,
                               pool.maxSize,
                               pool.usage,
                               0,
                               params.bytesize,
                               params.accessDescCount,
                               0};
  return Store(message, record, std::span<const CUmemAccessDesc>(access));
}

bool EncodeNode(Call& call, const CUgraphNodeParams& params, NodeMessage* message) {
  if (!UnusedIsZero(params)) return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS_v3& kernel = params.kernel;
      return EncodeKernelNode(
          call,
          {kernel.func, kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ,
           kernel.sharedMemBytes, kernel.kernelParams, kernel.extra, kernel.kern, kernel.ctx},
          message);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0 || params.memcpy.reserved != 0) return Refuse(call, CUDA_ERROR_INVALID_VALUE);
      return EncodeMemcpyNode(call, params.memcpy.copyParams, OrCurrent(call, params.memcpy.copyCtx), message);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& set = params.memset;
      return EncodeMemsetNode(call, {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height},
                              OrCurrent(call, set.ctx), message);
    }
    case CU_GRAPH_NODE_TYPE_HOST: return EncodeHostNode(call, {params.host.fn, params.host.userData}, message);
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      const ChildNodeRecord record{call.Use(HandleKind::kGraph, params.graph.graph),
                                   static_cast<uint32_t>(params.graph.ownership), 0};
      return call.ok() && Store(message, record);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY: return true;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      const CUevent event = params.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? params.eventWait.event : params.eventRecord.event;
      const EventNodeRecord record{call.Use(HandleKind::kEvent, event, false, CUDA_ERROR_INVALID_VALUE)};
      return call.ok() && Store(message, record);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      const CUDA_MEM_ALLOC_NODE_PARAMS_v2& alloc = params.alloc;
      return EncodeAllocNode(call, {alloc.poolProps, alloc.accessDescs, alloc.accessDescCount, alloc.bytesize, alloc.dptr},
                             message);
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return Store(message, FreeNodeRecord{params.free.dptr});
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return EncodeMemOpNode(call, {params.memOp.ctx, params.memOp.count, params.memOp.paramArray, params.memOp.flags}, message);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      const CUDA_CONDITIONAL_NODE_PARAMS& condition = params.conditional;
      const ConditionalNodeRecord record{condition.handle, call.Use(HandleKind::kContext, condition.ctx, true),
                                         static_cast<uint32_t>(condition.type), condition.size};
      return call.ok() && Store(message, record);
    }
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      LogWarning("{}: external semaphores belong to a graphics API in this process, which the server cannot reach",
                 call.info().name);
      return Refuse(call, CUDA_ERROR_NOT_SUPPORTED);
    default: return Refuse(call, CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace tessera
