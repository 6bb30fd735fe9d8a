// Starts a program as a child of this process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Runs the program at `path` with argv[0] `name` and `arguments`, in a session of its own without a terminal. `passed` become the
// child's descriptors kPassedFd, kPassedFd + 1 ... Its stdin is /dev/null, its stdout and stderr are `log_fd`, usually a pipe
// (child_logs.h); -1: they are ours. All other descriptors are closed; no signal is blocked or ignored. `environment`:
// "NAME=value"; nullopt: ours.
inline constexpr int kPassedFd = 3;
Result<pid_t> StartProgram(const std::string& path, const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<int>& passed, std::optional<std::vector<std::string>> environment = std::nullopt,
                           int log_fd = -1);

// Of a status of waitpid(2): "exited with code 3", "was killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera
