// In place of the worker's: notes that a handler asked.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "server/worker/call_context.h"

namespace tessera {

inline int g_turns_awaited = 0;

inline void AwaitTurn(CallContext&, CUstream, std::initializer_list<uint64_t>) { ++g_turns_awaited; }

}  // namespace tessera
