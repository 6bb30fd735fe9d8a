// What a child of this program finds out and writes: for what must not be done in the daemon itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Longest that a child may take; a GPU without persistence mode needs a few seconds.
inline constexpr int kReportTimeoutMs = 60'000;

// Starts this program with `arguments` and "FD_OPTION N", and reads what it writes to the descriptor N until it closes it or
// ends. What it logs is in the log when this returns (`log_name`: as its lines begin). kUnavailable, with a sentence, when it was
// killed by a signal, or by this function since it took too long.
Result<std::string> ReportOfChild(const std::string& log_name, const std::string& fd_option, std::vector<std::string> arguments,
                                  std::optional<std::vector<std::string>> environment = std::nullopt);

// The child's side. False: not all of it was written.
bool WriteReport(int fd, const std::string& text);

}  // namespace tessera
