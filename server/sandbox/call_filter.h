// Which system calls a worker may not make, as a seccomp filter. A list of what is refused, not of what is allowed:
// what the driver of the GPU needs changes with its releases. Source: seccomp(2),
// Documentation/userspace-api/seccomp_filter.rst.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Refuses with EPERM, on the calling thread and threads it will start: networks and connections, other processes'
// memory, programs and processes, signals to others, mounts, namespaces, kernel modules and the like. Needs
// no_new_privs. kUnsupported: the kernel or the processor has no filters that we can write.
Status RefuseCalls();

// Refuses nothing, and returns a descriptor on which every such call, and every opening of a file, waits for an answer.
Result<UniqueFd> WatchCalls();

// "connect", or "system call 999".
std::string CallName(int number);

}  // namespace tessera
