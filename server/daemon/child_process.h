// Starts this very program again as a child: workers and the device probe; or the gateway. The daemon itself never loads a
// driver, and a process that loaded one is never forked.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Runs /proc/self/exe with `arguments` (argv[0] is added). `passed` become the child's descriptors kPassedFd,
// kPassedFd + 1 ...; stdin is /dev/null, stdout and stderr are ours, everything else is closed. The child ends when the
// calling thread does (it must call BecomeChild() first thing).
inline constexpr int kPassedFd = 3;
Result<pid_t> StartSelf(const std::vector<std::string>& arguments, const std::vector<int>& passed);

// As above for the program at `path`.
Result<pid_t> StartProgram(const std::string& path, const std::vector<std::string>& arguments, const std::vector<int>& passed);

// In the child: SIGKILL when the parent ends, no new privileges.
// Exits at once when the parent is already gone.
void BecomeChild(pid_t parent);

// When the machine's memory runs out, this process ends rather than the daemon or anybody's program: what a worker holds is its
// client's doing (proc(5), oom_score_adj).
void OfferToRunOutOfMemoryFirst();

// "exited with code 3", "was killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera
