// The calls whose records touch the program's memory, as protocol/spec has them: generated into tests/all_work.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/runtime/touches.h"

namespace tessera {

struct WorkRow {
  const char* name;
  uint32_t id;
  Touches touches;
};

std::vector<WorkRow> AllWork();

}  // namespace tessera
