#include "server/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <glob.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <future>
#include <sstream>
#include <utility>

#include "protocol/base/hide_memory.h"
#include "protocol/base/unique_fd.h"
#include "server/sandbox/call_filter.h"
#include "server/sandbox/call_watch.h"
#include "server/sandbox/capabilities.h"
#include "server/sandbox/file_rules.h"
#include "server/sandbox/private_root.h"

namespace tessera {
namespace {

constexpr std::pair<std::string_view, SandboxMode> kModes[] = {
    {"off", SandboxMode::kOff}, {"auto", SandboxMode::kAuto}, {"require", SandboxMode::kRequire}, {"log", SandboxMode::kLog}};

// Groups besides the user's own that the device files are open to. kPermissionDenied when they are open to root alone.
Result<std::vector<gid_t>> GroupsOfDevices(const std::vector<std::string>& devices) {
  constexpr mode_t kOthers = S_IROTH | S_IWOTH;
  constexpr mode_t kGroup = S_IRGRP | S_IWGRP;
  std::vector<gid_t> groups;
  std::string closed;
  glob_t found{};
  int flags = 0;
  for (const std::string& pattern : devices) {
    glob(pattern.c_str(), flags, nullptr, &found);
    flags = GLOB_APPEND;
  }
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

// Fails, with a sentence, where root may not: in a container without CAP_SETUID, in a user namespace that lacks the user.
Status BecomeUser(const SandboxOptions& options) {
  const WorkerUser& user = *options.user;
  const Result<std::vector<gid_t>> groups = GroupsOfDevices(options.devices);
  if (!groups.ok()) return Status(groups.status().code(), options.who + " run as root: " + groups.status().message());
  if (setgroups(groups.value().size(), groups.value().data()) == 0 && setresgid(user.gid, user.gid, user.gid) == 0 &&
      setresuid(user.uid, user.uid, user.uid) == 0) {
    return Status::Ok();
  }
  return Status(StatusCode::kPermissionDenied,
                fmt::format("{} run as root: the kernel does not let this process become the user {} ({}): give it CAP_SETUID "
                            "and CAP_SETGID, and its user namespace that user",
                            options.who, user.name, std::strerror(errno)));
}

// Whether the process gets another user than it has.
bool ChangesUser(const SandboxOptions& options) { return geteuid() == 0 && options.user && options.user->uid != 0; }

std::vector<FileRule> RulesFor(const SandboxOptions& options) {
  if (options.files) return *options.files;
  std::vector<FileRule> rules = WorkerFileRules(options.library_directories);
  const bool own = options.user && options.user->own;
  for (FileRule& rule : rules) {
    if (rule.path == kSharedMemory) rule.source = own ? kNewMemory : options.shared_memory;
  }
  // What others have compiled is not for a process that has nothing in common with them.
  if (own) return rules;
  if (std::optional<FileRule> cache = CompileCacheRule(!ChangesUser(options))) rules.push_back(*std::move(cache));
  return rules;
}

Status WatchOnly(const SandboxOptions& options) {
  UniqueFd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  if (!memory.valid()) return Status::FromErrno("cannot open /proc/self/mem", errno);
  std::promise<UniqueFd> watched;
  StartCallWatch(watched.get_future(), std::move(memory), RulesFor(options));
  Result<UniqueFd> calls = WatchCalls(options.calls);
  watched.set_value(calls.ok() ? std::move(*calls) : UniqueFd());
  return calls.status();
}

// All that can be had. A failure: a call failed that this machine has.
Status GiveUp(const SandboxOptions& options, SandboxReport* report) {
  const std::vector<FileRule> rules = RulesFor(options);
  std::string user = geteuid() == 0 ? "root without capabilities" : "the server's user";
  if (geteuid() == 0 && !ChangesUser(options)) {
    report->gaps.push_back(options.who + " run as root: name another user with --worker-user");
  }
  const auto change_user = [&] {
    if (!ChangesUser(options)) return;
    if (const Status became = BecomeUser(options); !became.ok()) {
      report->gaps.push_back(became.message());
    } else {
      report->other_user = true;
      user = options.user->own ? "a user each" : "user " + options.user->name;
    }
  };
  // In a user namespace of its own, which it needs for mounting without this, there is no other user.
  const bool may_mount = HasCapability(CAP_SYS_ADMIN);
  if (!may_mount) change_user();
  if (options.private_root) {
    const Status entered = EnterPrivateRoot(rules, options.files ? Network::kMachine : Network::kNone);
    if (!entered.ok() && entered.code() != StatusCode::kUnsupported) return entered;
    report->private_root = entered.ok();
    if (!entered.ok()) {
      report->gaps.push_back(options.who +
                             " see the names of all files, for they have no root of their own: " + entered.message() +
                             (options.root_option.empty() ? "" : " (" + options.root_option + ": do without)"));
    }
  }
  if (may_mount) change_user();
  RETURN_IF_ERROR(GiveUpCapabilities());
  RETURN_IF_ERROR(HideMemory());
  if (options.parent_death_signal != 0) prctl(PR_SET_PDEATHSIG, options.parent_death_signal);
  std::vector<std::string> parts = {user};
  if (report->private_root) parts.push_back("a private root");
  if (const int version = LandlockVersion(); version > 0) {
    RETURN_IF_ERROR(RestrictFiles(rules, options.calls == CallFilter::kNetwork));
    parts.push_back("Landlock " + std::to_string(version));
  } else {
    report->gaps.push_back("this kernel has no Landlock (Linux 5.13, among the modules of lsm=): " + options.who +
                           " can open every file that they see and their user can");
  }
  if (HasFilters()) {
    RETURN_IF_ERROR(FilterCalls(options.calls));
    parts.push_back("system calls filtered");
  } else {
    report->gaps.push_back("this kernel has no seccomp filters: " + options.who + " can make every system call");
  }
  for (const std::string& part : parts) report->protection += (report->protection.empty() ? "" : ", ") + part;
  return Status::Ok();
}

// What a process that tries it writes, in a line each: the protection, whether it has a private root, and another user, the gaps.
[[noreturn]] void Tell(int to, const SandboxOptions& options) {
  SandboxReport report;
  Status status = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? Status::Ok() : Status::FromErrno("no_new_privs", errno);
  if (status.ok()) status = GiveUp(options, &report);
  if (!status.ok()) report.gaps.insert(report.gaps.begin(), options.who + " cannot enter it: " + status.message());
  std::string text = fmt::format("{}\n{}\n{}\n", report.protection, int{report.private_root}, int{report.other_user});
  for (const std::string& gap : report.gaps) text += gap + "\n";
  _exit(write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string ReadAll(int from) {
  std::string text;
  char piece[1024];
  for (ssize_t size; (size = read(from, piece, sizeof(piece))) != 0;) {
    if (size > 0) text.append(piece, static_cast<size_t>(size));
    if (size < 0 && errno != EINTR) break;
  }
  return text;
}

SandboxReport ParseReport(const std::string& text) {
  SandboxReport report;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, report.protection);
  report.private_root = std::getline(lines, line) && line == "1";
  report.other_user = std::getline(lines, line) && line == "1";
  while (std::getline(lines, line)) report.gaps.push_back(line);
  if (text.empty()) report.gaps.push_back("workers end when they enter it");
  return report;
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

Status EnterSandbox(const SandboxOptions& options, SandboxReport* report) {
  if (options.mode == SandboxMode::kOff) return Status::Ok();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Status::FromErrno("cannot give up new privileges", errno);
  if (options.mode == SandboxMode::kLog) return WatchOnly(options);
  SandboxReport own;
  if (report == nullptr) report = &own;
  RETURN_IF_ERROR(GiveUp(options, report));
  if (options.mode != SandboxMode::kRequire || report->gaps.empty()) return Status::Ok();
  return Status(StatusCode::kUnsupported, "the sandbox is not complete: " + report->gaps.front());
}

SandboxReport InspectSandbox(const SandboxOptions& options) {
  SandboxReport report;
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0)
    return {.protection = "unknown", .gaps = {"no pipe to a worker"}, .private_root = false, .other_user = false};
  const UniqueFd read_end(answer[0]);
  UniqueFd write_end(answer[1]);
  const pid_t pid = fork();
  if (pid == 0) Tell(write_end.get(), options);
  write_end.reset();
  const std::string text = ReadAll(read_end.get());
  if (pid > 0) waitpid(pid, nullptr, 0);
  return ParseReport(text);
}

}  // namespace tessera
