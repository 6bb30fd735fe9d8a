// The sandbox of services, which are no workers: each has its descriptors when it enters, and what it parses from then
// on comes from clients and workers.
//
// Of root each kind has a user of its own, whom no account has: ids that are the same for all servers, so that they
// share directories, below the 65534 that every container's user namespace ends with.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "server/sandbox/sandbox.h"

namespace tessera {

enum class Service : uid_t {  // its user
  kBroker = 65521,
  kImageKeeper = 65522,
  kGateway = 65523,  // the process of a tessera-gateway that carries sessions
  kAgent = 65524,    // the same of a tessera-agent
  kUsageKeeper = 65525,
};

// What it enters, whoever runs it. `private_root` as in SandboxOptions; `directories`: all that it may open files in, to read
// and write.
SandboxOptions ServiceSandbox(Service service, SandboxMode mode, bool private_root,
                              const std::vector<std::string>& directories = {});

// The end of a process that entered it. Without what libraries do at an exit: a sanitizer would look for leaks, and die of calls
// that it may not make any more.
[[noreturn]] void EndService(int code);

}  // namespace tessera
