// Which libcuda.so.1 a program would load, and of which release it is. For `tessera doctor`.
#pragma once

#include <string>
#include <vector>

#include "netaware/cli/host_checks.h"

namespace tessera {

// That Tessera's libraries are there, readable, and of this release.
std::vector<Finding> CheckClientLibraries(const InstallLayout& layout);

// Which libcuda.so.1 a program would load that is started here without `tessera run`: LD_PRELOAD, LD_LIBRARY_PATH, the loader's
// cache.
std::vector<Finding> CheckLibraryPath(const InstallLayout& layout);

// Whether `tessera run` gives the program (a path, or a name to look for in PATH) Tessera's library: not when it is linked
// statically, for another machine, runs with rights of its own (program_reach.h), or brings an RPATH with another libcuda.so.1
// (ld.so(8)). Of a script its interpreter is looked at, of a shim what it starts. Libraries that the program loads may have an
// RPATH too; they are not looked at.
std::vector<Finding> CheckProgram(const InstallLayout& layout, const std::string& name);

}  // namespace tessera
