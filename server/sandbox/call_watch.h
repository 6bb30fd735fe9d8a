// Tells in the log what a sandbox would refuse, and lets it happen (SandboxMode::kLog).
#pragma once

#include <vector>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/file_rules.h"

namespace tessera {

// Starts a thread that answers `calls` (WatchCalls()) as long as the process lives. Every refusal is told once.
// `memory` is /proc/self/mem, opened before: the thread itself must make no call that is watched.
void StartCallWatch(UniqueFd calls, UniqueFd memory, std::vector<FileRule> rules);

}  // namespace tessera
