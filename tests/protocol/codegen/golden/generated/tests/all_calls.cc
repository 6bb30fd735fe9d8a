// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "tests/protocol/spec/call_check.h"

namespace tessera {

void AddCalls_toy(std::vector<TestedCall>* calls);

std::vector<TestedCall> AllCalls() {
  std::vector<TestedCall> calls;
  AddCalls_toy(&calls);
  return calls;
}

}  // namespace tessera
