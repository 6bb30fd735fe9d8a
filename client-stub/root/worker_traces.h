// The traces that the workers of a traced process keep: what they have executed, and what their GPUs were given
// (server/worker/trace_log.h, server/worker/gpu_times.h).
#pragma once

#include <span>
#include <vector>

#include "client-stub/session/trace.h"

namespace tessera {

// Tells the session's worker to trace from now on. Any thread.
void StartWorkerTrace(Session& session);

// Asks each worker for its trace. The result has one entry for each session, in the same order. The entry of a worker that is
// gone is empty. Any thread.
std::vector<Trace::Worker> AskWorkerTraces(std::span<Session* const> sessions);

}  // namespace tessera
