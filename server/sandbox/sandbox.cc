#include "server/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/call_filter.h"
#include "server/sandbox/call_watch.h"
#include "server/sandbox/file_rules.h"
#include "server/sandbox/private_root.h"

namespace tessera {
namespace {

constexpr std::pair<std::string_view, SandboxMode> kModes[] = {
    {"off", SandboxMode::kOff}, {"auto", SandboxMode::kAuto}, {"require", SandboxMode::kRequire}, {"log", SandboxMode::kLog}};

// Groups besides the user's own that the GPU's device files are open to. kPermissionDenied when they are open to root
// alone.
Result<std::vector<gid_t>> GroupsOfDevices() {
  constexpr mode_t kOthers = S_IROTH | S_IWOTH;
  constexpr mode_t kGroup = S_IRGRP | S_IWGRP;
  std::vector<gid_t> groups;
  std::string closed;
  glob_t found{};
  glob("/dev/nvidia[0-9]*", 0, nullptr, &found);
  glob("/dev/nvidiactl", GLOB_APPEND, nullptr, &found);
  glob("/dev/nvidia-uvm", GLOB_APPEND, nullptr, &found);
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    struct stat status {};
    if (stat(found.gl_pathv[i], &status) != 0 || (status.st_mode & kOthers) == kOthers) continue;
    if ((status.st_mode & kGroup) != kGroup) {
      closed = found.gl_pathv[i];
    } else if (std::find(groups.begin(), groups.end(), status.st_gid) == groups.end()) {
      groups.push_back(status.st_gid);
    }
  }
  globfree(&found);
  if (closed.empty()) return groups;
  return Status(StatusCode::kPermissionDenied, closed + " is open to root alone: give its group the right to read and write");
}

bool HasFilters() {
  const uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

Status BecomeUser(const WorkerUser& user) {
  const Result<std::vector<gid_t>> groups = GroupsOfDevices();
  if (!groups.ok()) return groups.status();
  if (setgroups(groups.value().size(), groups.value().data()) != 0 || setresgid(user.gid, user.gid, user.gid) != 0 ||
      setresuid(user.uid, user.uid, user.uid) != 0) {
    return Status::FromErrno("cannot become the user " + user.name, errno);
  }
  return Status::Ok();
}

// Others of the same user may neither trace this process nor read its memory, and it leaves none behind.
Status HideMemory() {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return Status::FromErrno("cannot protect a process from being traced", errno);
  }
  return Status::Ok();
}

// Whether the process gets another user than it has.
bool ChangesUser(const SandboxOptions& options) { return geteuid() == 0 && options.user && options.user->uid != 0; }

std::vector<FileRule> RulesFor(const SandboxOptions& options) {
  std::vector<FileRule> rules = WorkerFileRules(options.library_directories);
  // What others have compiled is not for a process that has nothing in common with them.
  if (options.user && options.user->own) return rules;
  if (std::optional<FileRule> cache = CompileCacheRule(!ChangesUser(options))) rules.push_back(*std::move(cache));
  return rules;
}

// What is missing besides a private root.
std::vector<std::string> Missing(const SandboxOptions& options) {
  std::vector<std::string> gaps;
  if (LandlockVersion() == 0) {
    gaps.push_back(
        "this kernel has no Landlock (Linux 5.13, among the modules of lsm=): workers can open every file that they see "
        "and their user can");
  }
  if (!HasFilters()) gaps.push_back("this kernel has no seccomp filters: workers can make every system call");
  if (geteuid() != 0) return gaps;
  if (!ChangesUser(options)) {
    gaps.push_back("workers run as root: name another user with --worker-user");
  } else if (const auto groups = GroupsOfDevices(); !groups.ok()) {
    gaps.push_back("workers run as root: " + groups.status().message());
  }
  return gaps;
}

Status WatchOnly(const SandboxOptions& options) {
  UniqueFd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  if (!memory.valid()) return Status::FromErrno("cannot open /proc/self/mem", errno);
  std::vector<FileRule> rules = RulesFor(options);
  Result<UniqueFd> calls = WatchCalls();
  if (!calls.ok()) return calls.status();
  StartCallWatch(std::move(calls).value(), std::move(memory), std::move(rules));
  return Status::Ok();
}

}  // namespace

bool ParseSandboxMode(std::string_view word, SandboxMode* mode) {
  for (const auto& [name, value] : kModes) {
    if (word != name) continue;
    *mode = value;
    return true;
  }
  return false;
}

Result<WorkerUser> FindWorkerUser(const std::string& name) {
  const passwd* entry = getpwnam(name.c_str());
  if (entry == nullptr) {
    return Status(StatusCode::kNotFound, "this machine has no user '" + name + "': name another with --worker-user");
  }
  return WorkerUser{name, entry->pw_uid, entry->pw_gid};
}

SandboxReport InspectSandbox(const SandboxOptions& options) {
  SandboxReport report{.protection = {}, .gaps = Missing(options), .private_root = false};
  std::vector<std::string> parts;
  const bool changes = ChangesUser(options) && GroupsOfDevices().ok();
  parts.push_back(!changes ? "the server's user" : options.user->own ? "a user each" : "user " + options.user->name);
  if (options.private_root) {
    if (const Status tried = TryPrivateRoot(RulesFor(options)); tried.ok()) {
      parts.push_back("a private root");
      report.private_root = true;
    } else {
      report.gaps.push_back("workers see the names of all files, for they have no root of their own: " + tried.message() +
                            " (--worker-root machine: do without)");
    }
  }
  if (const int version = LandlockVersion(); version > 0) parts.push_back("Landlock " + std::to_string(version));
  if (HasFilters()) parts.push_back("system calls filtered");
  for (const std::string& part : parts) report.protection += (report.protection.empty() ? "" : ", ") + part;
  return report;
}

Status EnterSandbox(const SandboxOptions& options) {
  if (options.mode == SandboxMode::kOff) return Status::Ok();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Status::FromErrno("cannot give up new privileges", errno);
  if (options.mode == SandboxMode::kLog) return WatchOnly(options);
  const bool require = options.mode == SandboxMode::kRequire;
  if (const std::vector<std::string> gaps = Missing(options); require && !gaps.empty()) {
    return Status(StatusCode::kUnsupported, "the sandbox is not complete: " + gaps.front());
  }
  const std::vector<FileRule> rules = RulesFor(options);
  if (options.private_root) {
    const Status entered = EnterPrivateRoot(rules);
    if (!entered.ok() && (require || entered.code() != StatusCode::kUnsupported)) return entered;
  }
  if (ChangesUser(options) && GroupsOfDevices().ok()) RETURN_IF_ERROR(BecomeUser(*options.user));
  RETURN_IF_ERROR(HideMemory());
  if (LandlockVersion() > 0) RETURN_IF_ERROR(RestrictFiles(rules));
  return HasFilters() ? RefuseCalls() : Status::Ok();
}

}  // namespace tessera
