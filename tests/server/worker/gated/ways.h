// The ways in which a call of protocol/spec is driven against a closed gate, and whether it then waits.
//
// Most calls need no word here: their kind (GateKindOf) says whether they wait, and Arguments what they are filled with. Copies
// go every way that their records have. What is stated for a call by its name comes in place of both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/worker/gated/gated_call.h"

namespace tessera {

struct Way {
  std::string name;
  bool waits = false;  // until the gate is opened
  // `pinned`: memory that client and worker share.
  std::function<void(Arguments& given, uint64_t pinned)> give = [](Arguments&, uint64_t) {};
  bool mirrored = false;  // the channel is one between two machines
};

// None: there is no way stated for a call of its kind.
std::vector<Way> WaysOf(const GatedCall& call);

// The calls of which ways are stated by name.
std::vector<std::string_view> StatedCalls();

}  // namespace tessera
