// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// Finds the handler of a record by its call id. Any thread; the tables are constant.
#pragma once

#include <cstdint>

#include "protocol/wire/decoder.h"

namespace tessera {

class CallContext;

// Runs the handler of call `id`, which ends the call. An id that no client may send: call.Malformed().
void Dispatch(uint32_t id, CallContext& call, Decoder& in);
// The driver may block in this call: run it on the helper thread.
bool IsBlocking(uint32_t id);
// Waits for the turn of a blocking call, before a helper thread has it; does not end the call. Nothing to do for a call
// that gives no work. Executor thread.
void AwaitTurnOf(uint32_t id, CallContext& call, Decoder& in);
// A host function may send this call past the others: it may run beside the executor thread.
bool IsAside(uint32_t id);
// The call's name for logs; "unknown call" for an id without one.
const char* CallName(uint32_t id);

// What the scheduler is asked before the call runs.
enum class GateKind : uint8_t { kNone, kLaunch, kGraph, kMemory, kCopy, kSet, kOrder };
GateKind GateKindOf(uint32_t id);

}  // namespace tessera
