#include "server/worker/memory/graph_charges.h"

#include <vector>

#include "generated/driver_table.h"

namespace tessera {

void GraphCharges::AddNeeds(CUgraph graph, Needs* needs) const {
  size_t count = 0;
  if (driver_.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return;
  std::vector<CUgraphNode> nodes(count);
  if (driver_.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    if (driver_.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    CUgraph child = nullptr;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && driver_.cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS) {
      (*needs)[params.poolProps.location.id] += params.bytesize;
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && driver_.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      AddNeeds(child, needs);
    }
  }
}

void GraphCharges::NoteInstance(CUgraphExec exec, CUgraph graph) {
  if (!any()) return;
  Needs needs;
  AddNeeds(graph, &needs);
  MutexLock lock(mutex_);
  if (needs.empty()) {
    instances_.erase(exec);
  } else {
    instances_[exec] = {std::move(needs)};
  }
}

void GraphCharges::ForgetInstance(CUgraphExec exec) {
  if (!any()) return;
  MutexLock lock(mutex_);
  instances_.erase(exec);
}

CUresult GraphCharges::Launch(CUgraphExec exec, const std::function<CUresult()>& launch) {
  if (!any()) return launch();
  MutexLock lock(mutex_);
  const auto found = instances_.find(exec);
  if (found == instances_.end()) return launch();
  Instance& instance = found->second;
  for (const auto& [device, bytes] : instance.needs) {
    if (ledger_.limited(device)) MeasureOne(device);
  }
  if (instance.has_all) return launch();
  const CUresult result = Run(instance.needs, launch);
  instance.has_all = result == CUDA_SUCCESS;
  return result;
}

CUresult GraphCharges::Upload(CUgraph graph, const std::function<CUresult()>& upload) {
  if (!any()) return upload();
  Needs needs;
  AddNeeds(graph, &needs);
  MutexLock lock(mutex_);
  return Run(needs, upload);
}

CUresult GraphCharges::Run(const Needs& needs, const std::function<CUresult()>& work) {
  Needs taken;
  if (!TakeFor(needs, &taken)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = work();
  for (const auto& [device, bytes] : taken) {
    counted_[device] += bytes;
    MeasureOne(device);
  }
  return result;
}

bool GraphCharges::TakeFor(const Needs& needs, Needs* taken) {
  for (const auto& [device, bytes] : needs) {
    if (!ledger_.limited(device)) continue;
    MeasureOne(device);
    const uint64_t reserved = counted_[device];
    const uint64_t used = Attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
    const uint64_t spare = reserved > used ? reserved - used : 0;
    const uint64_t growth = bytes > spare ? bytes - spare : 0;
    if (ledger_.Take(device, MemoryKind::kGraphs, growth)) {
      (*taken)[device] = growth;
      continue;
    }
    for (const auto& [other, its_bytes] : *taken) ledger_.Give(other, MemoryKind::kGraphs, its_bytes);
    return false;
  }
  return true;
}

uint64_t GraphCharges::Attribute(CUdevice device, CUgraphMem_attribute attribute) const {
  cuuint64_t bytes = 0;
  return driver_.cuDeviceGetGraphMemAttribute(device, attribute, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

void GraphCharges::MeasureOne(CUdevice device) {
  uint64_t& counted = counted_[device];
  const uint64_t reserved = Attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
  if (reserved > counted) ledger_.Add(device, MemoryKind::kGraphs, reserved - counted);
  if (reserved < counted) {
    ledger_.Give(device, MemoryKind::kGraphs, counted - reserved);
    for (auto& [exec, instance] : instances_) instance.has_all = false;
  }
  counted = reserved;
}

void GraphCharges::Measure(CUdevice device) {
  if (!any() || !ledger_.limited(device)) return;
  MutexLock lock(mutex_);
  MeasureOne(device);
}

bool GraphCharges::Trim(CUdevice device) {
  if (!any() || !ledger_.limited(device)) return false;
  MutexLock lock(mutex_);
  const uint64_t before = counted_[device];
  driver_.cuDeviceGraphMemTrim(device);
  MeasureOne(device);
  return counted_[device] < before;
}

}  // namespace tessera
