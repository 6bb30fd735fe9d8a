#include "server/emulator/driver/code/conditional.h"

#include <utility>

namespace tessera::emulator {
namespace {

Registry<Condition>& Conditions() {
  static auto* conditions = new Registry<Condition>(HandleKind::kCondition);
  return *conditions;
}

}  // namespace

CUgraphConditionalHandle AddCondition(ConditionPtr condition) { return Conditions().Add(std::move(condition)); }

ConditionPtr FindCondition(CUgraphConditionalHandle handle) { return Conditions().Find(handle); }

bool ConditionTable::Set(uint64_t handle, uint32_t value) {
  const ConditionPtr condition = Conditions().Find(handle);
  if (condition == nullptr) return false;
  condition->value = value;
  return true;
}

}  // namespace tessera::emulator
