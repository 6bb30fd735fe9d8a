// The end of the process, in two steps, as with a driver.
//
// The first is an exit handler, which the first successful cuInit registers. So it runs before the handlers and destructors of
// what was there earlier, among them those of cudart. Calls that begin later return CUDA_ERROR_DEINITIALIZED, no host function of
// the program begins any more, and calls under way go on. The second runs after all exit handlers: the sessions are left.
//
// Whatever a thread in a call may use stays as it is, until the process is gone.
#pragma once

namespace tessera {

// The first step. Nothing in a forked child.
void AtExit();

}  // namespace tessera
