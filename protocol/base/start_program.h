// Starts a program as a child of this process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Runs the program at `path` with argv[0] `name` and `arguments`. `passed` become the child's descriptors kPassedFd,
// kPassedFd + 1 ...; stdin is /dev/null, stdout and stderr are ours, everything else is closed; no signal is blocked or ignored.
// `environment`: "NAME=value"; nothing: ours.
inline constexpr int kPassedFd = 3;
Result<pid_t> StartProgram(const std::string& path, const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<int>& passed, std::optional<std::vector<std::string>> environment = std::nullopt);

// Of a status of waitpid(2): "exited with code 3", "was killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera
