// What of its environment a client may bring into its worker.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

// The entries "NAME=value" that name a driver variable a client may set, taken apart, in order. Others are logged and left
// out: a variable that names files or libraries of the server is not the client's to choose.
std::vector<std::pair<std::string, std::string>> AllowedVariables(const std::vector<std::string>& environment);

// CUDA_VISIBLE_DEVICES of a worker whose daemon has the list `own` and whose client asked for `wanted`: the client's
// numbers count in the daemon's list; a UUID must stand in it. As CUDA does, the list ends before the first entry that
// names no device. "-1" when nothing is left. Source: CUDA C Programming Guide, "CUDA Environment Variables".
std::string SelectAmong(std::string_view own, std::string_view wanted);

}  // namespace tessera
