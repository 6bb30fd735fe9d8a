// For what a process says once, however often there is a reason.
#pragma once

#include <string_view>

namespace tessera {

// True when this process asks about `what` for the first time:
//
//   if (FirstTime("kernels use a mirror")) LogInfo("kernels use a mirror of ...");
//
// Every `what` is kept for ever, so it must be a constant or come from a short list. Any thread.
bool FirstTime(std::string_view what);

}  // namespace tessera
