#include "server/emulator/driver/graphs/conditional.h"

#include "server/emulator/driver/graphs/graph.h"

namespace tessera::emulator {
namespace {

Registry<Condition>& Conditions() {
  static auto* conditions = new Registry<Condition>(HandleKind::kCondition);
  return *conditions;
}

}  // namespace

ConditionPtr FindCondition(CUgraphConditionalHandle handle) { return Conditions().Find(handle); }

bool ConditionTable::Set(uint64_t handle, uint32_t value) {
  const ConditionPtr condition = Conditions().Find(handle);
  if (condition == nullptr) return false;
  condition->value = value;
  return true;
}

}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out, CUgraph hGraph, CUcontext ctx,
                                                   unsigned int defaultLaunchValue, unsigned int flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  std::lock_guard lock(GetDriver().graph_mutex);
  RETURN_IF(pHandle_out == nullptr || GetDriver().graphs.Find(hGraph) == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF((flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) != 0, CUDA_ERROR_INVALID_VALUE);
  context = GetDriver().contexts.Find(ctx);  // none is not the current one (measured)
  RETURN_IF(context == nullptr || !context->active(), CUDA_ERROR_INVALID_CONTEXT);
  *pHandle_out = Conditions().Add(std::make_shared<Condition>(reinterpret_cast<uint64_t>(hGraph), context->handle(),
                                                              defaultLaunchValue, (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0));
  return CUDA_SUCCESS;
}
