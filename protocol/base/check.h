// CHECK: programmer errors. In a worker a failed CHECK ends one session's process; the stub must never reach one, since
// it is a guest in somebody else's process (it reports Status instead).
#pragma once

namespace tessera {
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);
}  // namespace tessera

#define CHECK(expression) (static_cast<bool>(expression) ? void(0) : ::tessera::CheckFailed(#expression, __FILE__, __LINE__))
