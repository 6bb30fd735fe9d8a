// How a forked process begins that works beside its parent: it holds nothing that the parent holds.
#pragma once

#include <sys/types.h>

namespace tessera {

// Call it in the child, before its second thread. From then on the child is killed when `parent` ends and is in a process session
// of its own. Of all descriptors it keeps only `line`, as kPassedFd; the standard ones are /dev/null. Ends the process where that
// cannot be had.
void BecomeBare(pid_t parent, int line);

}  // namespace tessera
