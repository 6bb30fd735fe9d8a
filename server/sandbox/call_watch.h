// Tells in the log what a sandbox would refuse, and lets it happen (SandboxMode::kLog).
#pragma once

#include <future>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/file_rules.h"

namespace tessera {

// Starts a thread that answers `calls` (WatchCalls()) as long as the process lives; an invalid descriptor: there are none. Every
// refusal is told once. Before the calls are watched: a thread that comes later would wait for its own answers. `memory` is
// /proc/self/mem.
void StartCallWatch(std::future<UniqueFd> calls, UniqueFd memory, std::vector<FileRule> rules);

}  // namespace tessera
