// What was recorded, once more, by the same policy. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "protocol/base/status.h"
#include "scheduler/simulate/timeline.h"
#include "scheduler/simulate/trace.h"

namespace tessera {

struct Replayed {
  Timeline timeline;
  // The first answer that is not the recorded one, in a sentence that begins with "line N:"; none: all are equal, bit for bit.
  std::optional<std::string> difference;
};

// Tells a GpuTime with the recorded policy what was told then, and compares its answers. kInvalidArgument: events that no broker
// has (a session that is not there, time that goes back), as "line N: ..."; kNotFound: there is no such policy.
Result<Replayed> Replay(const Trace& trace);

}  // namespace tessera
