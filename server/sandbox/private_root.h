// A file system of the calling process's own, in which there is nothing but the files that rules name: what is not there can be
// neither opened nor looked for. Source: mount_namespaces(7), user_namespaces(7), open_tree and mount_setattr of the kernel's
// Documentation/filesystems, pivot_root(2).
#pragma once

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "server/sandbox/file_rules.h"

namespace tessera {

// kNone: a network namespace in which there is nothing. Neither /proc/self/net nor the abstract names of sockets are the
// machine's then; sockets that the process has stay what they are (network_namespaces(7)).
enum class Network { kMachine, kNone };

// Makes it and moves into it; the working directory is / afterwards. Files that rules allow to read cannot be written there,
// whoever one is. Descriptors and mappings stay. Processes with CAP_SYS_ADMIN keep what they may do; any other gets a user
// namespace for it, in which it has its own user alone, and gives up at once what it may do there. Before the second thread of a
// process.
//
// kUnsupported with a sentence when the kernel refuses: before anything that the process can see has changed.
Status EnterPrivateRoot(const std::vector<FileRule>& rules, Network network);

}  // namespace tessera
