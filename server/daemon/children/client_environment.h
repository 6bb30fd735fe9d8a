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

// The UUIDs, "GPU-..." or "MIG-...", of the devices that a session may have; empty: all that its driver finds. `gpus`: of those
// that it was given, separated by commas; empty: it may have the daemon's. `own`: the daemon's CUDA_VISIBLE_DEVICES, null: not
// set. `devices`: the UUIDs of the daemon's devices in its order, "GPU-..."; MIG instances are as `own` names them.
std::vector<std::string> DevicesOfSession(std::string_view gpus, const char* own, const std::vector<std::string>& devices);

// CUDA_VISIBLE_DEVICES of a worker whose session may have `own`, as DevicesOfSession says, at least one: those that the client's
// list `wanted` names of them, in its order (visible_devices.h). A repeated one stands there twice, so that the driver refuses
// the list; "-1": none is left. An empty `wanted` names all.
std::string SelectAmong(const std::vector<std::string>& own, std::string_view wanted);

}  // namespace tessera
