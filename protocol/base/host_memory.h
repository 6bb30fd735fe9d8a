// The memory that processes may take here: the machine's, or that of this process's control group, where that has a limit. Any
// thread.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

// What can still be taken, as the kernel reckons it. 0: unknown.
uint64_t HostMemoryFree();
// What can be taken in all, likewise.
uint64_t HostMemoryTotal();

// The least limit of this process's control group and those around it, of either version; UINT64_MAX: there is none, or it cannot
// be read. `root`: in whose proc/self/cgroup and sys/fs/cgroup it is looked for.
uint64_t ControlGroupMemoryLimit(const std::string& root = "/");

}  // namespace tessera
