// The part of a client's environment that its worker gets.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

// The entries "NAME=value" of driver variables that a client may set, as pairs, in order. Others are logged and left out: a
// client must not choose files or libraries of the server.
std::vector<std::pair<std::string, std::string>> AllowedVariables(const std::vector<std::string>& environment);

// CUDA_VISIBLE_DEVICES of a worker. `own`: the daemon's list. `wanted`: the client's list; its numbers count in `own`, and its
// UUIDs must stand there. As with CUDA, the list ends before the first entry that names no device. "-1": nothing is left. Source:
// CUDA C Programming Guide, "CUDA Environment Variables".
std::string SelectAmong(std::string_view own, std::string_view wanted);

}  // namespace tessera
