#include "netaware/cli/host_checks.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "netaware/cli/install_layout.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/server_user.h"

namespace tessera {
namespace {

// The lines that a program prints; none if it cannot be run. `program` is a path in the installation.
std::vector<std::string> LinesOf(const std::string& program, const std::string& argument) {
  std::vector<std::string> lines;
  FILE* output = popen(fmt::format("'{}' {} 2>/dev/null", program, argument).c_str(), "r");
  if (output == nullptr) return lines;
  char line[512];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    line[std::strcspn(line, "\n")] = '\0';
    lines.emplace_back(line);
  }
  pclose(output);
  return lines;
}

// The sandbox of the workers if this user starts a server here (server/sandbox).
std::vector<Finding> CheckSandbox(const std::string& daemon) {
  const std::vector<std::string> lines = LinesOf(daemon, "--check-sandbox");
  if (lines.empty()) return {};
  const std::string text = "workers of a server here: " + lines.front();
  if (lines.size() == 1) return {{Grade::kGood, "sandbox", text, ""}};
  return {{Grade::kNote, "sandbox", text + "; " + lines[1],
           "see tesserad --check-sandbox; --sandbox require starts no server without all of it"}};
}

// The resources that a session needs in a program.
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

// The driver and many programs (data loaders of PyTorch) share memory between processes there. Tessera itself does not.
Finding CheckNamedMemory() {
  constexpr uint64_t kMebibyte = 1 << 20;
  constexpr uint64_t kBytesLeast = 64 * kMebibyte + 1;  // containers usually get 64 MiB, which is too little for many programs
  struct statvfs size {};
  if (statvfs("/dev/shm", &size) != 0 || access("/dev/shm", W_OK) != 0) {
    return {Grade::kNote, "/dev/shm", fmt::format("it cannot be written: {}", std::strerror(errno)),
            "programs that share memory between processes need it: mount a tmpfs of mode 1777 there"};
  }
  const uint64_t bytes = uint64_t{size.f_blocks} * size.f_frsize;
  const uint64_t free_bytes = uint64_t{size.f_bavail} * size.f_frsize;
  const std::string text = fmt::format("{} MiB, {} MiB of them free", bytes / kMebibyte, free_bytes / kMebibyte);
  if (bytes >= kBytesLeast && free_bytes >= bytes / 16) return {Grade::kGood, "/dev/shm", text, ""};
  return {Grade::kNote, "/dev/shm", text,
          "programs that share memory between processes may need more: mount -o remount,size=8G /dev/shm, docker run "
          "--shm-size=8g, or remove old files there"};
}

Finding CheckLockedMemory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string text = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur >> 10);
  return {Grade::kGood, "locked memory",
          "limit (ulimit -l): " + text + "; pinned memory of CUDA does not count, the driver locks it", ""};
}

bool HasMemoryFiles(std::string* why) {
  const UniqueFd file(memfd_create("tessera-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.valid()) return true;
  *why = std::strerror(errno);
  return false;
}

}  // namespace

std::vector<Finding> CheckInstallation(const InstallLayout& layout) {
  std::vector<Finding> findings;
  for (const auto& [program, subject] :
       {std::pair(layout.daemon, "server program"), std::pair(layout.agent, "agent"), std::pair(layout.gateway, "gateway")}) {
    // A host without a server has neither.
    if (program != layout.agent && access(program.c_str(), F_OK) != 0) {
      findings.push_back({Grade::kNote, subject, program + " is not installed",
                          "nothing, if servers of other hosts are used; else install it (package tessera-server)"});
      continue;
    }
    const std::string expected = std::filesystem::path(program).filename().string() + " " + TESSERA_VERSION;
    const std::vector<std::string> lines = LinesOf(program, "--version");
    const std::string version = lines.empty() ? "" : lines.front();
    if (version == expected) {
      findings.push_back({Grade::kGood, subject, program + ", " + version, ""});
    } else {
      findings.push_back(
          {Grade::kProblem, subject,
           version.empty() ? program + " cannot be run" : program + " is " + version + ", this is tessera " + TESSERA_VERSION,
           "install Tessera again, all parts of one release"});
    }
  }
  for (Finding& finding : CheckSandbox(layout.daemon)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> CheckSystem() {
  std::vector<Finding> findings;
  utsname system{};
  uname(&system);
  const std::string description =
      fmt::format("{} {}, {}, glibc {}", system.sysname, system.release, system.machine, gnu_get_libc_version());
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
    findings.push_back(
        {Grade::kProblem, "limit", fmt::format("the limit of {} is {}, less than {}", limit.name, present.rlim_cur, limit.least),
         fmt::format("raise it: ulimit {} {}", limit.option, limit.resource == RLIMIT_NOFILE ? "1024" : "unlimited")});
  }
  findings.push_back(CheckNamedMemory());
  findings.push_back(CheckLockedMemory());
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!self.valid()) {
    findings.push_back({Grade::kNote, "system", "the kernel has no pidfds",
                        "private servers end with the last process of a job instead of its first"});
  }
  return findings;
}

std::vector<Finding> CheckLocalDriver() {
  std::vector<Finding> findings;
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    const bool one =
        name.starts_with("nvidia") && name.find_first_not_of("0123456789", 6) == std::string::npos && name.size() > 6;
    if (one || name == "nvidiactl" || name == "nvidia-uvm" || name == "dxg") devices.push_back(entry.path().string());
  }
  if (devices.empty()) return {{Grade::kGood, "local GPU", "none: programs get a server's, or the emulated one", ""}};
  std::sort(devices.begin(), devices.end());
  for (const std::string& device : devices) {
    if (access(device.c_str(), R_OK | W_OK) == 0) continue;
    findings.push_back({Grade::kProblem, "local GPU", device + " may not be used by this user: " + std::strerror(errno),
                        "add the user to the group of the file, usually video: sudo usermod -aG video $USER, then log in again"});
  }
  const auto has = [&](const char* device) { return std::find(devices.begin(), devices.end(), device) != devices.end(); };
  if (has("/dev/nvidiactl") && !has("/dev/nvidia-uvm")) {
    findings.push_back({Grade::kProblem, "local GPU", "/dev/nvidia-uvm is missing: CUDA does not start without it",
                        "load the driver's module: sudo nvidia-modprobe -u -c 0; for a container, give it that device too"});
  }
  if (findings.empty()) {
    std::string text = "the NVIDIA driver's device files may be used:";
    for (const std::string& device : devices) text += " " + device;
    findings.push_back({Grade::kGood, "local GPU", text, ""});
  }
  return findings;
}

std::vector<Finding> CheckSocket(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return {};  // the connection to the server reports the problem
  std::vector<Finding> findings;
  // A server of another user is reported by the query to it.
  if (bool unknown = false; ConnectToServer(path, &unknown).ok() && unknown) {
    findings.push_back(
        {Grade::kNote, "server user", "it cannot be told as whom the server at " + path + " runs",
         fmt::format("this container has no number for that user; if it is right, set {}=any", kServerUserVariable)});
  }
  const std::string text = fmt::format("{} has mode {:04o} and belongs to user {}", path, info.st_mode & 07777U, info.st_uid);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) == 0) {
    findings.push_back({Grade::kGood, "socket", text, ""});
  } else {
    findings.push_back({Grade::kNote, "socket", text,
                        "others may connect, and are turned away: a server works for its own user and root; chmod 600 it"});
  }
  return findings;
}

}  // namespace tessera
