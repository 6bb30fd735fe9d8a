// Runs the recorded policy again with the recorded events. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "protocol/base/status.h"
#include "scheduler/simulate/timeline.h"
#include "scheduler/simulate/trace.h"

namespace tessera {

struct Replayed {
  Timeline timeline;
  // The first answer that differs from the recorded one, in a sentence that begins with "line N:". None: all are equal, bit for
  // bit.
  std::optional<std::string> difference;
};

// Gives a GpuTime with the recorded policy the recorded events, and compares its answers. kInvalidArgument: events that no broker
// has (a session that is not there, time that goes back), as "line N: ..."; kNotFound: there is no such policy.
Result<Replayed> Replay(const SchedulerTrace& trace);

}  // namespace tessera
