// Lets a child of this program find something out that must not be done in the daemon itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// The longest time that a child may take. A GPU without persistence mode needs a few seconds.
inline constexpr int kReportTimeoutMs = 60'000;

// Starts this program with `arguments` and "FD_OPTION N". Returns what it writes to descriptor N until it closes N or ends. Its
// log lines, which begin with `log_name`, are in the log when this returns. kUnavailable, with a sentence: a signal killed it, or
// this function did since it took too long.
Result<std::string> ReportOfChild(const std::string& log_name, const std::string& fd_option, std::vector<std::string> arguments,
                                  std::optional<std::vector<std::string>> environment = std::nullopt);

// The child's side. False: not all of it was written.
bool WriteReport(int fd, const std::string& text);

}  // namespace tessera
