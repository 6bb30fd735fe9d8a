// Checks of `tessera doctor` about the libcuda.so.1 that a program would load.
#pragma once

#include <string>
#include <vector>

#include "netaware/cli/host_checks.h"

namespace tessera {

// Checks that Tessera's libraries exist, are readable, and are of this release.
std::vector<Finding> CheckClientLibraries(const InstallLayout& layout);

// Finds the libcuda.so.1 that a program loads here without `tessera run`: by LD_PRELOAD, LD_LIBRARY_PATH or the loader's cache.
std::vector<Finding> CheckLibraryPath(const InstallLayout& layout);

// Checks that the program (a path, or a name in PATH) gets Tessera's library under `tessera run`. It does not if it is linked
// statically, is for another machine, runs with rights of its own (program_reach.h), or has an RPATH with another libcuda.so.1
// (ld.so(8)). For a script the interpreter is checked, for a shim the program that it starts. Libraries of the program may have
// an RPATH too; they are not checked.
std::vector<Finding> CheckProgram(const InstallLayout& layout, const std::string& name);

}  // namespace tessera
