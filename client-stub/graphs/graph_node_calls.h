// What the calls that add, change and describe nodes with parameters have in common, whatever the kind of node. The functions
// return the call's result. CUDA_ERROR_INVALID_VALUE: a pointer that must not be null is null. Calling thread of the call.
#pragma once

#include <cuda.h>

#include <cstring>
#include <span>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/graphs/graph_params.h"
#include "protocol/runtime/client_support.h"

namespace tessera {

// Sends a new node with `count` dependencies, and stores its handle in `node`. `encode(NodeMessage*)` encodes the parameters; it
// returns false when the call failed. The caller may set fields of its own in `request`.
template <typename Request, typename Reply, typename Encode>
CUresult SendNewNode(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                     const void* params, Request& request, Reply* reply, Encode encode) {
  if (!call.ok()) return call.result();
  if (node == nullptr || params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<HandleId> ids;
  NodeMessage message;
  request.graph = call.Use(HandleKind::kGraph, graph);
  if (!call.ok() || !UseNodes(call, dependencies, count, &ids) || !encode(&message)) return call.result();
  request.dependencies.Borrow(ids);
  request.params = message.bytes;
  request.node = call.Mint(HandleKind::kGraphNode);
  if (!call.ok()) return call.result();
  const CUresult result = call.Sync(request, reply);
  if (result != CUDA_SUCCESS) return result;
  message.Sent();
  *node = ToObject<CUgraphNode>(request.node);
  return CUDA_SUCCESS;
}

// As SendNewNode(), for calls whose reply has nothing that the caller needs.
template <typename Request, typename Reply, typename Encode>
CUresult AddNode(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const void* params,
                 Encode encode) {
  Request request;
  Reply reply;
  return SendNewNode(call, node, graph, dependencies, count, params, request, &reply, encode);
}

// Sends new parameters for a node. The caller may set fields of its own in `request`.
template <typename Request, typename Encode>
CUresult SetNode(Call& call, CUgraphNode node, const void* params, Encode encode, Request request = {}) {
  if (!call.ok()) return call.result();
  if (params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  NodeMessage message;
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok() || !encode(&message)) return call.result();
  request.params = message.bytes;
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) message.Sent();
  return result;
}

// As SetNode(), for the node in an instantiated graph.
template <typename Request, typename Encode>
CUresult SetExecNode(Call& call, CUgraphExec exec, CUgraphNode node, const void* params, Encode encode, Request request = {}) {
  if (!call.ok()) return call.result();
  if (params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  NodeMessage message;
  request.exec = call.Use(HandleKind::kGraphExec, exec);
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok() || !encode(&message)) return call.result();
  request.params = message.bytes;
  if (GraphExecInfo* info = GraphExecs().Find(request.exec)) info->launched.store(false, std::memory_order_relaxed);
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) message.Sent();
  return result;
}

// Asks the server for the record of a node's parameters and for the elements behind it. `out` is the caller's struct, which is
// only checked for null. `elements` is null for a kind of node without elements.
template <typename Request, typename Reply, typename Record, typename Element = std::byte>
CUresult GetNode(Call& call, CUgraphNode node, const void* out, Record* record, std::vector<Element>* elements = nullptr) {
  if (!call.ok()) return call.result();
  if (out == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.node = call.Use(HandleKind::kGraphNode, node);
  if (!call.ok()) return call.result();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.params.size() < sizeof(Record)) return call.MalformedReply();
  std::memcpy(record, reply.params.data(), sizeof(Record));
  const auto rest = reply.params.subspan(sizeof(Record));
  if (rest.size() % sizeof(Element) != 0 || (elements == nullptr && !rest.empty())) return call.MalformedReply();
  if (elements == nullptr || rest.empty()) return CUDA_SUCCESS;
  elements->resize(rest.size() / sizeof(Element));
  std::memcpy(elements->data(), rest.data(), rest.size());
  return CUDA_SUCCESS;
}

}  // namespace tessera
