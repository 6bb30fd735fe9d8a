// Starts this very program again as a child: workers and the device probe; or the gateway. The daemon itself never loads a
// driver, and a process that loaded one is never forked.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/start_program.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// As StartProgram() for /proc/self/exe. The child ends when the calling thread does (it must call BecomeChild() first thing).
Result<pid_t> StartSelf(const std::vector<std::string>& arguments, const std::vector<int>& passed,
                        std::optional<std::vector<std::string>> environment = std::nullopt);

// In the child: SIGKILL when the parent ends, no new privileges.
// Exits at once when the parent is already gone.
void BecomeChild(pid_t parent);

// When the machine's memory runs out, this process ends rather than the daemon or anybody's program: what a worker holds is its
// client's doing (proc(5), oom_score_adj).
void OfferToRunOutOfMemoryFirst();

}  // namespace tessera
