#include "server/worker/graphs/any_node_params.h"

#include <cstring>

#include "protocol/wire/graph_params.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

template <typename Record>
bool Read(CallContext& call, std::span<const std::byte> params, Record* record) {
  if (params.size() == sizeof(Record)) {
    std::memcpy(record, params.data(), sizeof(Record));
    return true;
  }
  call.Malformed();
  return false;
}

}  // namespace

bool AnyNodeParams::Decode(CallContext& call, uint32_t type, std::span<const std::byte> params) {
  params_.type = static_cast<CUgraphNodeType>(type);
  switch (params_.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      if (!kernel_.Decode(call, params)) return false;
      const CUDA_KERNEL_NODE_PARAMS& kernel = kernel_.get();
      params_.kernel = {kernel.func,         kernel.gridDimX,  kernel.gridDimY,  kernel.gridDimZ,
                        kernel.blockDimX,    kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes,
                        kernel.kernelParams, kernel.extra,     kernel.kern,      kernel.ctx};
      return true;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return DecodeMemcpyNode(call, params, &params_.memcpy.copyParams, &params_.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS set{};
      CUcontext context = nullptr;
      if (!DecodeMemsetNode(call, params, &set, &context)) return false;
      params_.memset = {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height, context};
      return true;
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      HostNodeRecord record;
      if (!Read(call, params, &record)) return false;
      const CUDA_HOST_NODE_PARAMS host = call.worker().parts().host_functions().NodeParams(record.function);
      params_.host.fn = host.fn;
      params_.host.userData = host.userData;
      return true;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      ChildNodeRecord record;
      if (!Read(call, params, &record)) return false;
      params_.graph.graph = call.Use<CUgraph>(record.graph);
      params_.graph.ownership = static_cast<CUgraphChildGraphNodeOwnership>(record.ownership);
      return call.ok();
    }
    case CU_GRAPH_NODE_TYPE_EMPTY: return true;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      EventNodeRecord record;
      if (!Read(call, params, &record)) return false;
      const auto event = call.Use<CUevent>(record.event);
      if (params_.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
        params_.eventWait.event = event;
      } else {
        params_.eventRecord.event = event;
      }
      return call.ok();
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      if (!alloc_.Decode(call, params)) return false;
      const CUDA_MEM_ALLOC_NODE_PARAMS& alloc = alloc_.get();
      params_.alloc = {alloc.poolProps, alloc.accessDescs, alloc.accessDescCount, alloc.bytesize, 0};
      return true;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: {
      FreeNodeRecord record;
      if (!Read(call, params, &record)) return false;
      params_.free.dptr = record.address;
      return true;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      if (!operations_.Decode(call, params)) return false;
      const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch = operations_.get();
      params_.memOp = {batch.ctx, batch.count, batch.paramArray, batch.flags};
      return true;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      ConditionalNodeRecord record;
      if (!Read(call, params, &record)) return false;
      params_.conditional.handle = record.handle;
      params_.conditional.type = static_cast<CUgraphConditionalNodeType>(record.type);
      params_.conditional.size = record.size;
      params_.conditional.ctx = call.Use<CUcontext>(record.context);
      return call.ok();
    }
    default:
      call.Malformed();  // the client refuses all others
      return false;
  }
}

}  // namespace tessera
