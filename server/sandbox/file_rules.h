// Which files a worker may open, as a Landlock ruleset. Source: Documentation/userspace-api/landlock.rst of the kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

struct FileRule {
  enum class Access { kRead, kReadWrite };
  std::string path;  // a file, or a directory with all that is in it
  Access access = Access::kRead;
  // In a private root (private_root.h): the directory that is seen there; kNewMemory; empty: what is there.
  std::string source = {};
};
// An empty file system of the process's own, in memory.
inline constexpr char kNewMemory[] = "new memory";

// Where the driver keeps the state of its interprocess events.
inline constexpr char kSharedMemory[] = "/dev/shm";

// The files of a worker that exist now: system libraries and settings, this process in /proc, devices of the GPU.
// `library_directories` as in SandboxOptions.
std::vector<FileRule> WorkerFileRules(const std::vector<std::string>& library_directories);

// The same of a process that carries sessions over a network's cards: system libraries and all settings, this process in /proc,
// and the devices of cards.
std::vector<FileRule> NetworkFileRules(const std::vector<std::string>& library_directories);

// The driver's cache of compiled code, if there is one. `own_user`: the process keeps the user that it has, whose home
// directory has one then: it is made, as the driver would do later. Another user has one where CUDA_CACHE_PATH says so.
std::optional<FileRule> CompileCacheRule(bool own_user);

// The version of Landlock that the kernel has; 0: none.
int LandlockVersion();

// The calling thread, and threads it will start, may open what the rules name and nothing else, may connect to no TCP
// port, and may neither trace nor signal other processes, as far as the kernel's version knows these. `networks`: TCP ports are
// left alone. Needs no_new_privs. kUnsupported: the kernel has no Landlock.
Status RestrictFiles(const std::vector<FileRule>& rules, bool networks = false);

// Whether the rules let an absolute path be opened; for the log alone.
bool RulesAllow(const std::vector<FileRule>& rules, const std::string& path, bool write);

}  // namespace tessera
