// What a process is that another one forks to do something beside it: it has nothing that the other one holds.
#pragma once

#include <sys/types.h>

namespace tessera {

// In the child, before its second thread: it is killed when `parent` ends, is in a session of its own, and has of all descriptors
// `line` alone, as kPassedFd. Ends the process where that cannot be had.
void BecomeBare(pid_t parent, int line);

}  // namespace tessera
