#include "client-stub/graphs/captured_sets.h"

#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_params.h"
#include "client-stub/graphs/graphs_seen.h"
#include "client-stub/memory/memory_check.h"
#include "generated/client_custom.h"

namespace tessera {
namespace {

bool CheckNode(Call& call, CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUresult result = Enter_cuGraphNodeGetType(false, node, &type);
  if (result == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS set{};
    result = Enter_cuGraphMemsetNodeGetParams(false, node, &set);
    if (result == CUDA_SUCCESS) {
      Place place = Place::kInvalid;
      return CheckSet(call, set, &place);
    }
  } else if (result == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    result = Enter_cuGraphChildGraphNodeGetGraph(false, node, &child);
    if (result == CUDA_SUCCESS) return CheckCapturedSets(call, child);
  }
  return call.Fail(result) == CUDA_SUCCESS;
}

}  // namespace

void NoteUncheckedSet() { GraphsSeen::Process().unchecked_set.store(true, std::memory_order_relaxed); }

bool CheckCapturedSets(Call& call, CUgraph graph) {
  if (!GraphsSeen::Process().unchecked_set.load(std::memory_order_relaxed)) return true;
  size_t count = 0;
  CUresult result = Enter_cuGraphGetNodes(false, graph, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (result == CUDA_SUCCESS && count != 0) result = Enter_cuGraphGetNodes(false, graph, nodes.data(), &count);
  if (result != CUDA_SUCCESS) return call.Fail(result) == CUDA_SUCCESS;
  for (const CUgraphNode node : nodes) {
    if (!CheckNode(call, node)) return false;
  }
  return true;
}

}  // namespace tessera
