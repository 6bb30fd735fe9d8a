// Graph nodes that use memory: copies, sets, memory operations, allocations.

#include <algorithm>
#include <vector>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/graphs/host_copy_node.h"
#include "server/worker/graphs/node_calls.h"
#include "server/worker/graphs/node_params.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {

// --- Copies. Those of memory that only the client has are child graphs (host_copy_node.h). ---

void Do_cuGraphAddMemcpyNode(CallContext& call, const cuGraphAddMemcpyNodeRequest& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  if (IsHostCopy(request.params)) {
    CUgraphNode node = nullptr;
    if (!AddHostCopyNode(call, place.graph, place.dependencies, request.params, &node)) return;
    return FinishAdd<cuGraphAddMemcpyNodeReply>(call, request, CUDA_SUCCESS, node);
  }
  CUDA_MEMCPY3D copy;
  CUcontext context = nullptr;
  if (!DecodeMemcpyNode(call, request.params, &copy, &context)) return FinishUndecoded(call);
  if (call.driver().cuGraphAddMemcpyNode == nullptr) return call.Finish(MissingEntry("cuGraphAddMemcpyNode"));
  CUgraphNode node = nullptr;
  const CUresult result = call.driver().cuGraphAddMemcpyNode(&node, place.graph, place.dependencies.data(),
                                                             place.dependencies.size(), &copy, context);
  FinishAdd<cuGraphAddMemcpyNodeReply>(call, request, result, node);
}

void Do_cuGraphMemcpyNodeGetParams(CallContext& call, const cuGraphMemcpyNodeGetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphMemcpyNodeGetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphMemcpyNodeGetParams"));
  }
  cuGraphMemcpyNodeGetParamsReply reply;
  HostCopyNodeRecord host_copy;
  if (IsHostCopyNode(call, node, &host_copy)) {
    reply.params = std::as_bytes(std::span(&host_copy.seen, 1));
    return call.Finish(CUDA_SUCCESS, reply);
  }
  CUDA_MEMCPY3D copy{};
  const CUresult result = call.driver().cuGraphMemcpyNodeGetParams(node, &copy);
  std::vector<std::byte> params;
  if (result == CUDA_SUCCESS) EncodeMemcpyNode(call, copy, &params);
  reply.params = params;
  call.Finish(result, reply);
}

void Do_cuGraphMemcpyNodeSetParams(CallContext& call, const cuGraphMemcpyNodeSetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (IsHostCopy(request.params) || IsHostCopyNode(call, node)) return SetHostCopyNode(call, node, request.params);
  CUDA_MEMCPY3D copy;
  CUcontext context = nullptr;
  if (!DecodeMemcpyNode(call, request.params, &copy, &context)) return FinishUndecoded(call);
  if (call.driver().cuGraphMemcpyNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphMemcpyNodeSetParams"));
  }
  call.Finish(call.driver().cuGraphMemcpyNodeSetParams(node, &copy));
}

void Do_cuGraphExecMemcpyNodeSetParams(CallContext& call, const cuGraphExecMemcpyNodeSetParamsRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  if (IsHostCopy(request.params) || IsHostCopyNode(call, node)) {
    return SetExecHostCopyNode(call, exec, node, request.params);
  }
  CUDA_MEMCPY3D copy;
  CUcontext context = nullptr;
  if (!DecodeMemcpyNode(call, request.params, &copy, &context)) return FinishUndecoded(call);
  if (call.driver().cuGraphExecMemcpyNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphExecMemcpyNodeSetParams"));
  }
  call.Finish(call.driver().cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context));
}

// --- Sets. ---

void Do_cuGraphAddMemsetNode(CallContext& call, const cuGraphAddMemsetNodeRequest& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  CUDA_MEMSET_NODE_PARAMS set;
  CUcontext context = nullptr;
  if (!DecodeMemsetNode(call, request.params, &set, &context)) return FinishUndecoded(call);
  if (call.driver().cuGraphAddMemsetNode == nullptr) return call.Finish(MissingEntry("cuGraphAddMemsetNode"));
  CUgraphNode node = nullptr;
  const CUresult result =
      call.driver().cuGraphAddMemsetNode(&node, place.graph, place.dependencies.data(), place.dependencies.size(), &set, context);
  FinishAdd<cuGraphAddMemsetNodeReply>(call, request, result, node);
}

void Do_cuGraphMemsetNodeGetParams(CallContext& call, const cuGraphMemsetNodeGetParamsRequest& request) {
  GetNode<cuGraphMemsetNodeGetParamsReply>(call, request, EncodeMemsetNode);
}

void Do_cuGraphMemsetNodeSetParams(CallContext& call, const cuGraphMemsetNodeSetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  CUDA_MEMSET_NODE_PARAMS set;
  CUcontext context = nullptr;
  if (!DecodeMemsetNode(call, request.params, &set, &context)) return FinishUndecoded(call);
  if (call.driver().cuGraphMemsetNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphMemsetNodeSetParams"));
  }
  call.Finish(call.driver().cuGraphMemsetNodeSetParams(node, &set));
}

void Do_cuGraphExecMemsetNodeSetParams(CallContext& call, const cuGraphExecMemsetNodeSetParamsRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  CUDA_MEMSET_NODE_PARAMS set;
  CUcontext context = nullptr;
  if (!DecodeMemsetNode(call, request.params, &set, &context)) return FinishUndecoded(call);
  if (call.driver().cuGraphExecMemsetNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphExecMemsetNodeSetParams"));
  }
  const auto set_in = [&](CUcontext in) { return call.driver().cuGraphExecMemsetNodeSetParams(exec, node, &set, in); };
  CUresult result = set_in(context);
  // Natively the context of the memory counts, not the one that is given (measured: driver 580). The session's memory has none,
  // and the driver wants the context in which the node was made.
  if (result == CUDA_ERROR_INVALID_VALUE && context != nullptr) {
    std::vector<CUcontext> contexts;
    call.worker().objects().ForEach(HandleKind::kContext,
                                    [&](HandleId, uint64_t other) { contexts.push_back(reinterpret_cast<CUcontext>(other)); });
    std::any_of(contexts.begin(), contexts.end(), [&](CUcontext other) { return (result = set_in(other)) == CUDA_SUCCESS; });
  }
  call.Finish(result);
}

// --- Memory operations. ---

void Do_cuGraphAddBatchMemOpNode(CallContext& call, const cuGraphAddBatchMemOpNodeRequest& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  MemOpNodeParams params;
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  if (call.driver().cuGraphAddBatchMemOpNode == nullptr) return call.Finish(MissingEntry("cuGraphAddBatchMemOpNode"));
  CUgraphNode node = nullptr;
  const CUresult result = call.driver().cuGraphAddBatchMemOpNode(&node, place.graph, place.dependencies.data(),
                                                                 place.dependencies.size(), &params.get());
  FinishAdd<cuGraphAddBatchMemOpNodeReply>(call, request, result, node);
}

void Do_cuGraphBatchMemOpNodeGetParams(CallContext& call, const cuGraphBatchMemOpNodeGetParamsRequest& request) {
  GetNode<cuGraphBatchMemOpNodeGetParamsReply>(call, request, EncodeMemOpNode);
}

void Do_cuGraphBatchMemOpNodeSetParams(CallContext& call, const cuGraphBatchMemOpNodeSetParamsRequest& request) {
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  MemOpNodeParams params;
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  if (call.driver().cuGraphBatchMemOpNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphBatchMemOpNodeSetParams"));
  }
  call.Finish(call.driver().cuGraphBatchMemOpNodeSetParams(node, &params.get()));
}

void Do_cuGraphExecBatchMemOpNodeSetParams(CallContext& call, const cuGraphExecBatchMemOpNodeSetParamsRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto node = call.Use<CUgraphNode>(request.node);
  if (!call.ok()) return call.Finish(call.error());
  MemOpNodeParams params;
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  if (call.driver().cuGraphExecBatchMemOpNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphExecBatchMemOpNodeSetParams"));
  }
  call.Finish(call.driver().cuGraphExecBatchMemOpNodeSetParams(exec, node, &params.get()));
}

// --- Allocations. The driver chooses the address; it is the graph's as long as the graph exists. ---

void Do_cuGraphAddMemAllocNode(CallContext& call, const cuGraphAddMemAllocNodeRequest& request) {
  NodePlace place;
  if (!PreparePlace(call, request, &place)) return;
  AllocNodeParams params;
  if (!params.Decode(call, request.params)) return FinishUndecoded(call);
  if (call.driver().cuGraphAddMemAllocNode == nullptr) return call.Finish(MissingEntry("cuGraphAddMemAllocNode"));
  CUgraphNode node = nullptr;
  const CUresult result = call.driver().cuGraphAddMemAllocNode(&node, place.graph, place.dependencies.data(),
                                                               place.dependencies.size(), &params.get());
  cuGraphAddMemAllocNodeReply reply;
  reply.dptr = params.get().dptr;
  if (result == CUDA_SUCCESS) {
    call.worker().parts().memory().NoteGraphMemory(Range{params.get().dptr, params.get().bytesize});
  }
  FinishAdd(call, request, result, node, reply);
}

void Do_cuGraphMemAllocNodeGetParams(CallContext& call, const cuGraphMemAllocNodeGetParamsRequest& request) {
  GetNode<cuGraphMemAllocNodeGetParamsReply>(call, request, EncodeAllocNode);
}

}  // namespace tessera
