// Starts a program as a child of this process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Runs the program at `path` with argv[0] `name` and `arguments`. `passed` become the child's descriptors kPassedFd,
// kPassedFd + 1 ...; stdin is /dev/null, stdout and stderr are `log_fd`, everything else is closed; no signal is blocked or
// ignored. It is in a session of its own, without a terminal. `environment`: "NAME=value"; nothing: ours. `log_fd` as a rule is a
// pipe (child_logs.h); -1: stdout and stderr are ours.
inline constexpr int kPassedFd = 3;
Result<pid_t> StartProgram(const std::string& path, const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<int>& passed, std::optional<std::vector<std::string>> environment = std::nullopt,
                           int log_fd = -1);

// Of a status of waitpid(2): "exited with code 3", "was killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera
