// What host functions may call, and how.
#pragma once

#include "client-stub/process/call_info.h"

namespace tessera {

// Whether a host function may make the call; else it gets CUDA_ERROR_NOT_PERMITTED (800). The documentation forbids all
// CUDA calls; driver 580.159 lets those pass that are about an existing stream or event, and those that need no device.
//
// Those of the spec's mark `aside` go past the ring of commands (Session::RequestAside): launches there may be waiting for the
// very function that makes the call, once the driver takes no more of them. Queries and elapsed times answer "not ready" while
// what they ask about stands in the ring; records, and calls that wait, then follow it there, as do the other calls that may
// pass: a host function that waits for work which the program enqueued behind more launches than the driver takes waits for
// ever. Natively the program would wait in one of those launches, and the work not be enqueued.
bool AllowedInHostFunction(const CallInfo& info);
// The call is about streams, events and captures: of the domains that host functions may call.
bool AboutStreamsAndEvents(const CallInfo& info);
// A question that may be answered with CUDA_ERROR_NOT_READY.
bool UnfinishedIsAnAnswer(const CallInfo& info);

}  // namespace tessera
