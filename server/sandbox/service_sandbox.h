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
  kNode = 65526,    // tessera-node
  kPlacer = 65527,  // tessera-placer
};

// What it enters, whoever runs it. `private_root` as in SandboxOptions; `directories`: all that it may open files in, to read
// and write.
SandboxOptions ServiceSandbox(Service service, SandboxMode mode, bool private_root,
                              const std::vector<std::string>& directories = {});

// The same of a process that carries sessions over a library which opens devices and makes connections as it goes (ucx://). It
// may load code out of `library_directories`. Its root is the machine's: cards belong to the machine's user namespace.
SandboxOptions NetworkSandbox(Service service, SandboxMode mode, const std::vector<std::string>& library_directories);

// EnterSandbox() of that, before the library has threads. Memory that cards reach is locked: root's process may lock as much as
// before. Without `report` what is missing is a warning each.
Status EnterNetworkSandbox(Service service, SandboxMode mode, const std::vector<std::string>& library_directories,
                           SandboxReport* report = nullptr);

// The end of a process that entered it. Without what libraries do at an exit: a sanitizer would look for leaks, and die of calls
// that it may not make any more.
[[noreturn]] void EndService(int code);

}  // namespace tessera
