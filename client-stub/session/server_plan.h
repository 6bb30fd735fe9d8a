// Which devices of which servers a process uses, and under which numbers, when it has several servers.
//
// The servers' devices count through in the order of the servers; CUDA_VISIBLE_DEVICES selects from that joined list as it
// selects from the devices of one host (CUDA C programming guide, "CUDA environment variables"): numbers, or beginnings of
// UUIDs as the process sees them; the first entry that names no device ends the list. Pure; any thread.
#pragma once

#include <cuda.h>

#include <string_view>
#include <vector>

#include "client-stub/session/server_inquiry.h"
#include "client-stub/session/session_place.h"

namespace tessera {

// A place for a session with one of `servers`, by its number in that list.
struct PlannedSession {
  size_t server = 0;
  SessionPlace place;
};
// The sessions to make: none with a server of which no device is wanted. `visible`: CUDA_VISIBLE_DEVICES, empty when it is not
// set.
std::vector<PlannedSession> PlanSessions(const std::vector<AskedServer>& servers, std::string_view visible);

}  // namespace tessera
