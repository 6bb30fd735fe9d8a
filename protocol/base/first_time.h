// What the process says once, however often there is a reason to.
#pragma once

#include <string_view>

namespace tessera {

// Whether it is the first time in the process that `what` is about to be said:
//
//   if (FirstTime("kernels use a mirror")) LogInfo("kernels use a mirror of ...");
//
// Whatever was asked about is kept, so it is text of this program or comes from a short list. Any thread.
bool FirstTime(std::string_view what);

}  // namespace tessera
