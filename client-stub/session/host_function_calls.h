// Which calls host functions may make, and how these are sent.
#pragma once

#include "client-stub/process/call_info.h"

namespace tessera {

// Whether a host function may make the call; else it gets CUDA_ERROR_NOT_PERMITTED (800). The documentation forbids all
// CUDA calls; driver 580.159 lets those pass that are about an existing stream or event, and those that need no device.
//
// Calls with the spec's mark `aside` go past the ring of commands (Session::RequestAside): once the driver's queue is full,
// launches in the ring may wait for the very function that makes the call. Queries and elapsed times answer "not ready" while
// what they ask about is still in the ring. Event records and waits then go into the ring behind it, and so do the other allowed
// calls. So a host function waits for ever if it waits for work that the program enqueued behind more launches than the driver
// takes. Natively the program would be stuck in one of those launches, and the work would not be enqueued.
bool AllowedInHostFunction(const CallInfo& info);
// Whether the call is about streams, events and captures, the domains that host functions may call.
bool AboutStreamsAndEvents(const CallInfo& info);
// A question that may be answered with CUDA_ERROR_NOT_READY.
bool UnfinishedIsAnAnswer(const CallInfo& info);

}  // namespace tessera
