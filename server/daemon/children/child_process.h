// Starts this very program again as a child: workers and the device probe; or the gateway. The daemon itself never loads a
// driver, and a process that loaded one is never forked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/child_logs.h"
#include "protocol/base/start_program.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// As ChildLogs::Start() for /proc/self/exe. The child ends when the calling thread does (it must call BecomeChild() first thing).
Result<pid_t> StartSelf(ChildLogs& logs, const std::string& log_name, const std::vector<std::string>& arguments,
                        const std::vector<int>& passed, std::optional<std::vector<std::string>> environment = std::nullopt);

// How the roles name themselves in the log.
inline constexpr const char* kProbeLogName = "tesserad probe";
inline constexpr const char* kTrialLogName = "tesserad trial";
inline constexpr const char* kMonitorLogName = "tesserad monitor";
inline constexpr const char* kImagesLogName = "tesserad images";
std::string WorkerLogName(uint64_t session);

// In the child: SIGKILL when the parent ends, no new privileges.
// Exits at once when the parent is already gone.
void BecomeChild(pid_t parent);

// `who` has neither become ready nor ended for so long.
Status NotReadyInTime(const std::string& who, uint32_t seconds);

// When the machine's memory runs out, this process ends rather than the daemon or anybody's program: what a worker holds is its
// client's doing (proc(5), oom_score_adj).
void OfferToRunOutOfMemoryFirst();

// Ends a child of this process with SIGTERM, and with SIGKILL if it is still there after `grace_ns`. Returns once it is gone.
void EndChild(pid_t pid, uint64_t grace_ns);

}  // namespace tessera
