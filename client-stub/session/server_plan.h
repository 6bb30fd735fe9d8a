// Chooses the devices that a process with several servers uses, and their numbers.
//
// The devices of all servers form one list, in the order of the servers. CUDA_VISIBLE_DEVICES selects from it as from the devices
// of one host (protocol/base/visible_devices.h), whose UUIDs are as the process sees them. Pure; any thread.
#pragma once

#include <cuda.h>

#include <string_view>
#include <vector>

#include "client-stub/session/server_inquiry.h"
#include "client-stub/session/session_place.h"

namespace tessera {

// A session with one of the servers, by the server's number in the list.
struct PlannedSession {
  size_t server = 0;
  SessionPlace place;
};
struct SessionPlan {
  std::vector<PlannedSession> sessions;  // a server without a wanted device gets none
  bool repeats_device = false;           // `visible` names one twice: there are none, and cuInit says so
};
// `visible`: CUDA_VISIBLE_DEVICES; empty: not set.
SessionPlan PlanSessions(const std::vector<AskedServer>& servers, std::string_view visible);

}  // namespace tessera
