#include "server/worker/graphs/host_copy_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"
#include "server/driver/missing_entry.h"
#include "server/worker/graphs/graph_handles.h"
#include "server/worker/graphs/node_params.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

bool HasShadow(const HostCopyNodeRecord& record) { return record.source_is_client_s == 0 || record.destination_is_client_s == 0; }

// Whether the two differ in nothing but what the driver lets a node change.
bool SameForm(const HostCopyNodeRecord& one, const HostCopyNodeRecord& other) {
  return one.source_is_client_s == other.source_is_client_s && one.destination_is_client_s == other.destination_is_client_s;
}

// What the nodes inside are made of.
struct Parts {
  HostCopyNodeRecord record;
  CUDA_HOST_NODE_PARAMS function{};
  CUDA_MEMCPY3D copy{};
  CUcontext context = nullptr;
};

// False when the call has ended (malformed) or failed (see call.ok()). Discard or use `function`.
bool Decode(CallContext& call, std::span<const std::byte> params, Parts* parts) {
  HostCopyNodeRecord& record = parts->record;
  if (!IsHostCopy(params)) {
    call.Malformed();
    return false;
  }
  std::memcpy(&record, params.data(), sizeof(record));
  WrittenRange written;
  if (HasShadow(record)) {
    MemcpyNodeRecord inner = record.seen;
    MemcpyNodeRecord::End& end = record.source_is_client_s != 0 ? inner.source : inner.destination;
    end = MemcpyNodeRecord::End{};
    end.type = CU_MEMORYTYPE_HOST;
    end.address = record.shadow;
    end.pitch = inner.width_bytes;
    end.height = inner.height;
    const auto bytes = std::as_bytes(std::span(&inner, 1));
    if (!DecodeMemcpyNode(call, bytes, &parts->copy, &parts->context)) return false;
    if (parts->context == nullptr) parts->context = call.worker().CurrentContext();
    if (record.destination_is_client_s != 0) {
      written = WrittenAt(call, record.shadow, inner.width_bytes * inner.height * inner.depth);
    }
  }
  parts->function = call.worker().parts().host_functions().NodeParams(record.function, params, written);
  if (record.pageable != 0) call.worker().parts().host_copies().NoteNode();
  return true;
}

// Adds the nodes inside to `graph`, which is empty.
CUresult Fill(CallContext& call, CUgraph graph, const Parts& parts) {
  const DriverTable& driver = call.driver();
  const bool copies = HasShadow(parts.record);
  const bool copy_first = copies && parts.record.destination_is_client_s != 0;
  CUgraphNode before = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (copy_first) result = driver.cuGraphAddMemcpyNode(&before, graph, nullptr, 0, &parts.copy, parts.context);
  CUgraphNode function = nullptr;
  if (result == CUDA_SUCCESS) {
    result = driver.cuGraphAddHostNode(&function, graph, &before, before == nullptr ? 0 : 1, &parts.function);
  }
  if (result == CUDA_SUCCESS && copies && !copy_first) {
    result = driver.cuGraphAddMemcpyNode(&before, graph, &function, 1, &parts.copy, parts.context);
  }
  return result;
}

// A graph of the nodes inside, to be embedded and destroyed. The host function ends with it and its copies.
CUresult Build(CallContext& call, const Parts& parts, CUgraph* graph) {
  const DriverTable& driver = call.driver();
  CUresult result = driver.cuGraphCreate(graph, 0);
  if (result == CUDA_SUCCESS) {
    result = Fill(call, *graph, parts);
    if (result == CUDA_SUCCESS) result = call.worker().parts().host_functions().ReleaseWith(*graph, parts.function);
    if (result == CUDA_SUCCESS) return CUDA_SUCCESS;
    driver.cuGraphDestroy(*graph);
  }
  HostFunctions::Discard(parts.function);
  return result;
}

bool DriverCan(CallContext& call) {
  const DriverTable& driver = call.driver();
  return driver.cuGraphCreate != nullptr && driver.cuGraphAddChildGraphNode != nullptr &&
         driver.cuGraphChildGraphNodeGetGraph != nullptr && driver.cuGraphAddHostNode != nullptr &&
         driver.cuGraphAddMemcpyNode != nullptr;
}

// The nodes inside a node that may be ours: true when it is.
bool Open(CallContext& call, CUgraphNode node, HostCopyNodeRecord* record, CUgraph* graph, CUgraphNode* function,
          CUgraphNode* copy) {
  const DriverTable& driver = call.driver();
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<CUgraphNode> inside;
  if (!DriverCan(call) || driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_GRAPH ||
      driver.cuGraphChildGraphNodeGetGraph(node, graph) != CUDA_SUCCESS ||
      ListNodes(call, *graph, false, &inside) != CUDA_SUCCESS || inside.size() > 2) {
    return false;
  }
  bool found = false;
  for (CUgraphNode one : inside) {
    CUDA_HOST_NODE_PARAMS params{};
    if (driver.cuGraphNodeGetType(one, &type) != CUDA_SUCCESS) return false;
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY) *copy = one;
    if (type != CU_GRAPH_NODE_TYPE_HOST || driver.cuGraphHostNodeGetParams(one, &params) != CUDA_SUCCESS) continue;
    const auto note = HostFunctions::NoteOf(params);
    if (note.size() != sizeof(*record)) continue;
    std::memcpy(record, note.data(), sizeof(*record));
    *function = one;
    found = true;
  }
  return found;
}

HostCopyInstances::Copy CopyOf(CUgraphNode node, const HostCopyNodeRecord& record) {
  const bool writes = record.destination_is_client_s != 0;
  return {node, record.function, record.pageable != 0 && !writes, record.pageable != 0 && writes};
}

// Calls `visit(node, record, nested)` for each of these nodes in a graph and those embedded in it.
template <typename Visit>
void ForEachHostCopy(CallContext& call, CUgraph graph, const Visit& visit, bool nested = false) {
  const DriverTable& driver = call.driver();
  std::vector<CUgraphNode> nodes;
  if (!DriverCan(call) || ListNodes(call, graph, false, &nodes) != CUDA_SUCCESS) return;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph inside = nullptr;
    if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    HostCopyNodeRecord record;
    if (IsHostCopyNode(call, node, &record)) {
      visit(node, record, nested);
    } else if (driver.cuGraphChildGraphNodeGetGraph(node, &inside) == CUDA_SUCCESS) {
      ForEachHostCopy(call, inside, visit, true);
    }
  }
}

// What a graph, with those embedded in it, copies of ordinary memory.
void Collect(CallContext& call, CUgraph graph, std::vector<HostCopyInstances::Copy>* copies) {
  ForEachHostCopy(call, graph, [&](CUgraphNode node, const HostCopyNodeRecord& record, bool nested) {
    if (record.pageable == 0) return;
    copies->push_back(CopyOf(node, record));
    copies->back().nested = nested;
  });
}

bool CopiesOrdinaryMemory(std::span<const std::byte> params) {
  HostCopyNodeRecord record;
  if (!IsHostCopy(params)) return false;
  std::memcpy(&record, params.data(), sizeof(record));
  return record.pageable != 0;
}

// Natively too no such graph copies ordinary memory.
bool IsDeviceGraph(CallContext& call, CUgraphExec exec) {
  cuuint64_t flags = 0;
  return call.driver().cuGraphExecGetFlags != nullptr && call.driver().cuGraphExecGetFlags(exec, &flags) == CUDA_SUCCESS &&
         (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
}

// Parameters of another form than the node has: says so once.
CUresult RefuseForm() {
  if (FirstTime("a copy node cannot change its kind")) {
    LogWarning(
        "a copy node of a graph cannot change between ordinary host memory and other memory: add another node, and "
        "instantiate the graph again");
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

void HostCopyInstances::Set(CUgraphExec exec, Instance instance) {
  MutexLock lock(mutex_);
  if (instance.copies.empty() && !instance.unsure) {
    instances_.erase(exec);  // an earlier instance may have had this address
  } else {
    instances_[exec] = std::move(instance);
  }
}

HostCopyInstances::Instance HostCopyInstances::Get(CUgraphExec exec) const {
  if (!any()) return {};
  MutexLock lock(mutex_);
  const auto found = instances_.find(exec);
  return found == instances_.end() ? Instance() : found->second;
}

bool HostCopyInstances::Waits(CUgraphExec exec) const {
  const Instance instance = Get(exec);
  return instance.unsure ||
         std::any_of(instance.copies.begin(), instance.copies.end(), [](const Copy& copy) { return copy.writes; });
}

void NoteInstance(CallContext& call, CUgraphExec exec, CUgraph graph) {
  call.worker().parts().memory().charges().graphs().NoteInstance(exec, graph);
  HostCopyInstances& instances = call.worker().parts().host_copies();
  if (!instances.any()) return;
  HostCopyInstances::Instance instance;
  Collect(call, graph, &instance.copies);
  instances.Set(exec, std::move(instance));
}

void NotePart(CallContext& call, CUgraphExec exec, CUgraph graph) {
  HostCopyInstances& instances = call.worker().parts().host_copies();
  if (!instances.any()) return;
  HostCopyInstances::Instance instance = instances.Get(exec);
  std::vector<HostCopyInstances::Copy> part;
  Collect(call, graph, &part);
  // Which copies of the instance were replaced is not known here.
  instance.unsure = instance.unsure || !part.empty() || !instance.copies.empty();
  if (instance.unsure) instance.copies.clear();
  instances.Set(exec, std::move(instance));
}

CUgraphNode FindHostCopy(CallContext& call, CUgraph graph, HostCopyNodeRecord* record) {
  CUgraphNode found = nullptr;
  ForEachHostCopy(call, graph, [&](CUgraphNode node, const HostCopyNodeRecord& one, bool) {
    if (found != nullptr && one.pageable <= record->pageable) return;
    found = node;
    *record = one;
  });
  return found;
}

bool IsHostCopy(std::span<const std::byte> params) { return params.size() == sizeof(HostCopyNodeRecord); }

bool IsHostCopyNode(CallContext& call, CUgraphNode node, HostCopyNodeRecord* record) {
  HostCopyNodeRecord own;
  CUgraph graph = nullptr;
  CUgraphNode function = nullptr;
  CUgraphNode copy = nullptr;
  if (!Open(call, node, &own, &graph, &function, &copy)) return false;
  if (record != nullptr) *record = own;
  return true;
}

bool AddHostCopyNode(CallContext& call, CUgraph graph, const std::vector<CUgraphNode>& dependencies,
                     std::span<const std::byte> params, CUgraphNode* node) {
  if (!DriverCan(call)) {
    call.Finish(MissingEntry("cuGraphAddChildGraphNode"));
    return false;
  }
  Parts parts;
  if (!Decode(call, params, &parts)) {
    if (!call.ok()) call.Finish(call.error());
    return false;
  }
  CUgraph inside = nullptr;
  CUresult result = Build(call, parts, &inside);
  if (result == CUDA_SUCCESS) {
    result = call.driver().cuGraphAddChildGraphNode(node, graph, dependencies.data(), dependencies.size(), inside);
    call.driver().cuGraphDestroy(inside);
  }
  if (result != CUDA_SUCCESS) call.Finish(result);
  return result == CUDA_SUCCESS;
}

void SetHostCopyNode(CallContext& call, CUgraphNode node, std::span<const std::byte> params) {
  HostCopyNodeRecord old;
  CUgraph graph = nullptr;
  CUgraphNode function = nullptr;
  CUgraphNode copy = nullptr;
  if (!Open(call, node, &old, &graph, &function, &copy) || !IsHostCopy(params)) return call.Finish(RefuseForm());
  Parts parts;
  if (!Decode(call, params, &parts)) return call.ok() ? void() : call.Finish(call.error());
  const DriverTable& driver = call.driver();
  CUresult result = SameForm(old, parts.record) ? CUDA_SUCCESS : RefuseForm();
  if (result == CUDA_SUCCESS && copy != nullptr) result = driver.cuGraphMemcpyNodeSetParams(copy, &parts.copy);
  if (result == CUDA_SUCCESS) result = driver.cuGraphHostNodeSetParams(function, &parts.function);
  if (result != CUDA_SUCCESS) {
    HostFunctions::Discard(parts.function);
    return call.Finish(result);
  }
  // Instances may still have the function that was replaced: it ends with the graph, like the new one.
  call.Finish(call.worker().parts().host_functions().ReleaseWith(graph, parts.function));
}

void SetExecHostCopyNode(CallContext& call, CUgraphExec exec, CUgraphNode node, std::span<const std::byte> params) {
  HostCopyNodeRecord old;
  if (!IsHostCopyNode(call, node, &old) || !IsHostCopy(params)) {
    return call.Finish(CopiesOrdinaryMemory(params) && IsDeviceGraph(call, exec) ? CUDA_ERROR_INVALID_VALUE : RefuseForm());
  }
  if (call.driver().cuGraphExecChildGraphNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphExecChildGraphNodeSetParams"));
  }
  Parts parts;
  if (!Decode(call, params, &parts)) return call.ok() ? void() : call.Finish(call.error());
  if (!SameForm(old, parts.record)) {
    HostFunctions::Discard(parts.function);
    return call.Finish(RefuseForm());
  }
  CUgraph inside = nullptr;
  CUresult result = Build(call, parts, &inside);
  if (result == CUDA_SUCCESS) {
    result = call.driver().cuGraphExecChildGraphNodeSetParams(exec, node, inside);
    call.driver().cuGraphDestroy(inside);
  }
  if (result == CUDA_SUCCESS) {
    HostCopyInstances& instances = call.worker().parts().host_copies();
    HostCopyInstances::Instance instance = instances.Get(exec);
    std::erase_if(instance.copies, [&](const HostCopyInstances::Copy& copy) { return copy.node == node; });
    if (parts.record.pageable != 0) instance.copies.push_back(CopyOf(node, parts.record));
    instances.Set(exec, std::move(instance));
  }
  call.Finish(result);
}

}  // namespace tessera
