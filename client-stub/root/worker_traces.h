// What the workers of a traced process have executed, and what their GPUs were given, as they tell it themselves
// (server/worker/trace_log.h, server/worker/gpu_times.h).
#pragma once

#include <span>
#include <vector>

#include "client-stub/session/trace.h"

namespace tessera {

// Has the worker of the session trace from now on. Any thread.
void StartWorkerTrace(Session& session);

// Asks the workers what they have traced, in the order of the sessions; empty of one that is gone. Any thread.
std::vector<Trace::Worker> AskWorkerTraces(std::span<Session* const> sessions);

}  // namespace tessera
