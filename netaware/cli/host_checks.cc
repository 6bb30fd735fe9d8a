#include "netaware/cli/host_checks.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "netaware/cli/install_layout.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

// The first line that a program prints; empty when it cannot be run. `program` is a path of the installation.
std::string FirstLine(const std::string& program, const std::string& argument) {
  FILE* output = popen(fmt::format("'{}' {} 2>/dev/null", program, argument).c_str(), "r");
  if (output == nullptr) return "";
  char line[256] = {};
  if (std::fgets(line, sizeof(line), output) == nullptr) line[0] = '\0';
  pclose(output);
  line[std::strcspn(line, "\n")] = '\0';
  return line;
}

// What a session maps and opens in a program.
constexpr rlim_t kAddressSpaceMin = rlim_t{1} << 44;  // an address window (protocol/memory/window_table.h)
constexpr rlim_t kFileBytesMin = rlim_t{64} << 20;    // the staging segment
constexpr rlim_t kFilesMin = 64;

struct Limit {
  int resource;
  rlim_t least;
  const char* name;
  const char* option;
};
constexpr Limit kLimits[] = {{RLIMIT_AS, kAddressSpaceMin, "address space", "-v"},
                             {RLIMIT_FSIZE, kFileBytesMin, "size of files, shared memory too", "-f"},
                             {RLIMIT_NOFILE, kFilesMin, "open files", "-n"}};

bool HasMemoryFiles(std::string* why) {
  const UniqueFd file(memfd_create("tessera-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.valid()) return true;
  *why = std::strerror(errno);
  return false;
}

}  // namespace

std::vector<Finding> CheckInstallation(const InstallLayout& layout) {
  std::vector<Finding> findings;
  const std::string expected = std::string("tesserad ") + TESSERA_VERSION;
  const std::string version = FirstLine(layout.daemon, "--version");
  if (version == expected) {
    findings.push_back({Grade::kGood, "server program", layout.daemon + ", " + version, ""});
  } else {
    findings.push_back({Grade::kProblem, "server program",
                        version.empty() ? layout.daemon + " cannot be run" : layout.daemon + " is " + version + ", this is tessera " + TESSERA_VERSION,
                        "install Tessera again, all parts of one release"});
  }
  for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    const std::string path = layout.client_dir + "/" + library;
    if (access(path.c_str(), R_OK) == 0) {
      findings.push_back({Grade::kGood, "client library", path, ""});
    } else {
      findings.push_back({Grade::kProblem, "client library", path + " cannot be read: " + std::strerror(errno),
                          "install Tessera again, or make the file readable"});
    }
  }
  return findings;
}

std::vector<Finding> CheckLibraryPath(const InstallLayout& layout) {
  const char* variable = getenv("LD_LIBRARY_PATH");
  const std::string path = variable == nullptr ? "" : variable;
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find(':', start), path.size());
    const std::string library = path.substr(start, end - start) + "/libcuda.so.1";
    start = end + 1;
    if (access(library.c_str(), F_OK) != 0) continue;
    std::error_code error;
    if (std::filesystem::equivalent(library, layout.client_dir + "/libcuda.so.1", error)) {
      return {{Grade::kGood, "library path", "LD_LIBRARY_PATH leads to Tessera's libcuda.so.1", ""}};
    }
    return {{Grade::kNote, "library path", "LD_LIBRARY_PATH leads to " + library,
             "start programs with 'tessera run', which puts its own in front"}};
  }
  return {{Grade::kGood, "library path", "no libcuda.so.1 in LD_LIBRARY_PATH; 'tessera run' sets it", ""}};
}

std::vector<Finding> CheckSystem() {
  std::vector<Finding> findings;
  utsname system{};
  uname(&system);
  const std::string description = fmt::format("{} {}, {}, glibc {}", system.sysname, system.release, system.machine, gnu_get_libc_version());
  if (std::strcmp(system.machine, "x86_64") == 0) {
    findings.push_back({Grade::kGood, "system", description, ""});
  } else {
    findings.push_back({Grade::kProblem, "system", description, "use a machine with an x86-64 processor: no other is supported"});
  }
  std::string why;
  if (HasMemoryFiles(&why)) {
    findings.push_back({Grade::kGood, "shared memory", "memory files can be made", ""});
  } else {
    findings.push_back({Grade::kProblem, "shared memory", "memory files cannot be made: " + why,
                        "allow memfd_create in the sandbox that this runs in"});
  }
  for (const Limit& limit : kLimits) {
    rlimit present{};
    getrlimit(static_cast<__rlimit_resource>(limit.resource), &present);
    if (present.rlim_cur == RLIM_INFINITY || present.rlim_cur >= limit.least) continue;
    findings.push_back({Grade::kProblem, "limit", fmt::format("the limit of {} is {}, less than {}", limit.name, present.rlim_cur, limit.least),
                        fmt::format("raise it: ulimit {} {}", limit.option, limit.resource == RLIMIT_NOFILE ? "1024" : "unlimited")});
  }
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!self.valid()) {
    findings.push_back({Grade::kNote, "system", "the kernel has no pidfds", "private servers end with the last process of a job instead of its first"});
  }
  return findings;
}

std::vector<Finding> CheckLocalDriver() {
  std::error_code error;
  const bool device = std::filesystem::exists("/dev/nvidiactl", error) || std::filesystem::exists("/dev/dxg", error);
  if (!device) return {{Grade::kGood, "local GPU", "none: programs get a server's, or the emulated one", ""}};
  if (access("/dev/nvidiactl", R_OK | W_OK) != 0 && errno == EACCES) {
    return {{Grade::kProblem, "local GPU", "/dev/nvidiactl may not be used by this user",
             "add the user to the group of the file, usually video: sudo usermod -aG video $USER, then log in again"}};
  }
  return {{Grade::kGood, "local GPU", "the NVIDIA driver's device files are here", ""}};
}

}  // namespace tessera
