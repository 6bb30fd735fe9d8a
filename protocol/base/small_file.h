// Reads whole files that a user has written or named.
#pragma once

#include <cstddef>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// The text of a file of at most `bytes_max`. kNotFound, kPermissionDenied, kInvalidArgument (longer, or no ordinary file).
Result<std::string> ReadSmallFile(const std::string& path, size_t bytes_max);
// The same in two steps. `path` is for messages.
Result<UniqueFd> OpenSmallFile(const std::string& path);
Result<std::string> ReadSmallFile(const UniqueFd& file, const std::string& path, size_t bytes_max);

}  // namespace tessera
