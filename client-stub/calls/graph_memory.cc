// Allocation nodes. Free nodes and the attributes of graph memory need no body of their own.

#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_memory.h"
#include "client-stub/graphs/graph_node_calls.h"
#include "generated/client_custom.h"
#include "protocol/wire/graph_params.h"

namespace tessera {

CUresult Custom_cuGraphAddMemAllocNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                       size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  cuGraphAddMemAllocNodeRequest request;
  cuGraphAddMemAllocNodeReply reply;
  const CUresult result = SendNewNode(call, phGraphNode, hGraph, dependencies, numDependencies, nodeParams, request, &reply,
                                      [&](NodeMessage* message) { return EncodeAllocNode(call, *nodeParams, message); });
  if (result != CUDA_SUCCESS) return result;
  if (!AdoptGraphMemory(call, reply.dptr, nodeParams->bytesize, nodeParams->poolProps)) {
    return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  nodeParams->dptr = reply.dptr;
  return CUDA_SUCCESS;
}

CUresult Custom_cuGraphMemAllocNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  AllocNodeRecord record;
  std::vector<CUmemAccessDesc> access;
  const CUresult result =
      GetNode<cuGraphMemAllocNodeGetParamsRequest, cuGraphMemAllocNodeGetParamsReply>(call, hNode, params_out, &record, &access);
  if (result != CUDA_SUCCESS) return result;
  if (access.size() != record.access_count) return call.MalformedReply();
  const HandleId node(reinterpret_cast<uint64_t>(hNode));
  CUmemPoolProps pool{};
  pool.allocType = static_cast<CUmemAllocationType>(record.allocation_type);
  pool.handleTypes = static_cast<CUmemAllocationHandleType>(record.handle_types);
  pool.location = {static_cast<CUmemLocationType>(record.location_type), record.location};
  if (pool.location.type == CU_MEM_LOCATION_TYPE_DEVICE) pool.location.id = call.Ordinal(record.location);
  for (CUmemAccessDesc& one : access) {
    if (one.location.type == CU_MEM_LOCATION_TYPE_DEVICE) one.location.id = call.Ordinal(one.location.id);
  }
  pool.maxSize = record.pool_bytes_max;
  pool.usage = static_cast<unsigned short>(record.usage);
  *params_out = {pool, NodeParametersOfProcess().KeepArray<CUmemAccessDesc>(node, access), access.size(), record.bytes,
                 record.address};
  return CUDA_SUCCESS;
}

}  // namespace tessera
