#include "server/emulator/driver/code/conditional.h"

#include <utility>

namespace tessera::emulator {

CUgraphConditionalHandle AddCondition(ConditionPtr condition) { return GetDriver().conditions.Add(std::move(condition)); }

ConditionPtr FindCondition(CUgraphConditionalHandle handle) { return GetDriver().conditions.Find(handle); }

bool ConditionTable::Set(uint64_t handle, uint32_t value) {
  const ConditionPtr condition = FindCondition(handle);
  if (condition == nullptr) return false;
  condition->value = value;
  return true;
}

}  // namespace tessera::emulator
