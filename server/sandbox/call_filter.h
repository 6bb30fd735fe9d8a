// Which system calls a worker or a service may make, as a seccomp filter (call_lists.h names the calls, make_call_programs.cc has
// their conditions). Source: seccomp(2), Documentation/userspace-api/seccomp_filter.rst.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

enum class CallFilter {
  // What is known to be needed. Known others fail with EPERM; what no list names with ENOSYS, as on an older kernel: C libraries
  // have another way then.
  kAllowList,
  // Everything but what is known to reach others: for drivers that make a call which no list names.
  kRefusingList,
  // Of kAllowList what a service needs that has all its descriptors: no sockets of its own, no code that was not there, of
  // ioctl what descriptors of any kind are asked.
  kService,
  // kService, what takes connections of a listening socket, and what makes pairs of Unix sockets.
  kBroker,
  // For processes that carry sessions: kBroker; nothing that makes, removes or changes files by name.
  kCarrier,
  // For those that carry them over a library which makes connections and opens devices as it goes (ucx://): kAllowList, calls
  // that no list names, connections over networks and questions to the kernel about them. No sockets of this host's programs.
  kNetwork,
};

// On the calling thread and threads it will start. Both refuse with EPERM: networks and connections, other processes' memory,
// limits and priorities, what processes share by names and numbers, programs and processes, signals to others, mounts,
// namespaces, kernel modules and the like. Nothing ends the process. Needs no_new_privs. Fails where the kernel has no filters.
Status FilterCalls(CallFilter kind);

// Another where kAllowList is another.
uint64_t CallFilterVersion();

// Refuses nothing, and returns a descriptor on which every call that `kind` refuses, and every opening of a file, waits for
// an answer. kRefusingList is watched as kAllowList, and kNetwork as that and what
// it may do besides.
Result<UniqueFd> WatchCalls(CallFilter kind);

// "connect", or "system call 999".
std::string CallName(int number);

}  // namespace tessera
