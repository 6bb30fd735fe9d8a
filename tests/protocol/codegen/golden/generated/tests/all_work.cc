// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "tests/client-stub/device_work/device_work_rows.h"

namespace tessera {

std::vector<WorkRow> AllWork() {
  return {
    {"cuToyThrow", 0x000b, Touches::kAnything},
  };
}

}  // namespace tessera
