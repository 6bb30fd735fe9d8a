#include "client-stub/process/own_agent.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "protocol/base/checksum.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr const char* kSocketName = "/agent.sock";
constexpr int kOwnerFd = 3;  // in the agent
constexpr int kReadyTimeoutMs = 10'000;
constexpr int kAncestorsMax = 64;

// Beside this library, as an installation has it: PREFIX/lib/client/libcuda.so.1 and PREFIX/bin/tessera-agent. Empty: none there.
std::string AgentProgram() {
  Dl_info self{};
  std::array<char, PATH_MAX> path{};
  if (dladdr(reinterpret_cast<const void*>(&ReachOtherHosts), &self) == 0 || realpath(self.dli_fname, path.data()) == nullptr)
    return "";
  std::string place = path.data();
  for (int up = 0; up < 3; ++up) place.resize(std::min(place.size(), place.rfind('/')));
  place += "/bin/tessera-agent";
  return access(place.c_str(), X_OK) == 0 ? place : "";
}

// The words of a file of /proc that zeros end; empty where it cannot be read.
std::string ReadOf(pid_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Has(pid_t pid, std::string_view variable) {
  const std::string all = '\0' + ReadOf(pid, "environ") + '\0';
  return all.find('\0' + std::string(variable) + '\0') != std::string::npos;
}

// Of /proc/PID/stat, behind the name, which may have anything in it: field 4 is the parent, field 22 when it began.
std::string StatField(pid_t pid, int field) {
  const std::string stat = ReadOf(pid, "stat");
  size_t at = stat.rfind(')');
  for (int i = 2; i < field && at != std::string::npos; ++i) at = stat.find(' ', at + 1);
  return at == std::string::npos ? "" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

pid_t ParentOf(pid_t pid) { return static_cast<pid_t>(std::strtol(StatField(pid, 4).c_str(), nullptr, 10)); }

std::string HashOf(std::string_view text) {
  const uint64_t hash = ChecksumOf(std::as_bytes(std::span(text)));
  std::array<char, 17> words{};
  snprintf(words.data(), words.size(), "%016llx", static_cast<unsigned long long>(hash));
  return words.data();
}

// A directory that this user alone can enter, the same for all processes of `owner` that want an agent to `url` and show the same
// keys: an agent speaks for whoever started it.
std::string DirectoryFor(const std::string& url, pid_t owner) {
  const std::string& runtime = GetConfig().runtime_directory;
  const std::string parent = !runtime.empty() && access(runtime.c_str(), W_OK) == 0 ? runtime : "/tmp";
  return parent + "/tessera-" + std::to_string(geteuid()) + "-" +
         HashOf(url + " " + std::to_string(owner) + " " + StatField(owner, 22) + "\n" + GetConfig().agent_settings);
}

// Opened and locked; invalid with `*why`.
UniqueFd LockDirectory(const std::string& path, std::string* why) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) break;
    UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat opened {};
    if (!directory.valid() || fstat(directory.get(), &opened) != 0) break;
    if (opened.st_uid != geteuid() || (opened.st_mode & 077) != 0) {
      *why = path + " is another user's, or open to others: remove it";
      return {};
    }
    while (flock(directory.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    // An agent that ends takes its directory away.
    struct stat there {};
    if (stat(path.c_str(), &there) == 0 && there.st_ino == opened.st_ino) return directory;
  }
  if (why->empty())
    *why = path + " cannot be made (" + std::strerror(errno) + "): set XDG_RUNTIME_DIR to a directory that you may write to";
  return {};
}

bool SomebodyListens(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) return false;
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return peer.valid() && connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Forks without what the C library has registered for it, since locks of other threads may be held; `signal`: of the child's end.
pid_t RawFork(int signal) { return static_cast<pid_t>(syscall(SYS_clone, signal, nullptr, nullptr, nullptr, nullptr)); }

// In the child's child: becomes the agent.
[[noreturn]] void Exec(char* const* words, char* const* variables, int out, int owner) {
  setsid();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  // A word for its end of the pipe and for `owner`, beyond the numbers that they get.
  const int ready = fcntl(out, F_DUPFD, kOwnerFd + 1);
  const int watched = fcntl(owner, F_DUPFD, kOwnerFd + 1);
  const int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDERR_FILENO);
  dup2(ready, STDOUT_FILENO);
  dup2(watched, kOwnerFd);
  syscall(SYS_close_range, kOwnerFd + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(words[0], words, variables);
  _exit(127);
}

// In a child that neither signals nor is found by a wait for any child: starts the agent, whose parent it is until the agent has
// gone to the background.
[[noreturn]] void StartInBetween(char* const* words, char* const* variables, int out, int owner) {
  const pid_t agent = RawFork(SIGCHLD);
  if (agent == 0) Exec(words, variables, out, owner);
  if (agent > 0) syscall(SYS_wait4, agent, nullptr, 0, nullptr);
  _exit(0);
}

// Whether it said that it is ready.
bool BecameReady(int from) {
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{kReadyTimeoutMs} * 1'000'000;
  char letter = 0;
  while (letter != '\n') {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return false;
    pollfd readable{from, POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000) + 1) < 0 && errno != EINTR) return false;
    if (readable.revents == 0) continue;
    const ssize_t got = read(from, &letter, 1);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
  }
  return true;
}

Status Start(const std::string& program, const std::string& url, const std::string& socket_path, pid_t owner) {
  const UniqueFd watched(static_cast<int>(syscall(SYS_pidfd_open, owner, 0)));
  int ends[2];
  if (!watched.valid() || pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno("tessera-agent cannot be started", errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  unlink(socket_path.c_str());  // of one that ended before its time
  std::string owner_fd = std::to_string(kOwnerFd);
  std::string texts[] = {program,      "--listen", "unix:" + socket_path, "--server", url,
                         "--owner-fd", owner_fd,   "--remove-directory"};
  std::array<char*, std::size(texts) + 1> words{};
  for (size_t i = 0; i < std::size(texts); ++i) words[i] = texts[i].data();
  // What the program has loaded into itself is not for the agent.
  std::vector<char*> variables;
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with("LD_PRELOAD=")) variables.push_back(*one);
  }
  variables.push_back(nullptr);
  const pid_t between = RawFork(0);
  if (between == 0) StartInBetween(words.data(), variables.data(), write_end.get(), watched.get());
  if (between < 0) return Status::FromErrno("tessera-agent cannot be started", errno);
  write_end.reset();
  const bool ready = BecameReady(read_end.get());
  while (ready && waitpid(between, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  if (ready) return Status::Ok();
  kill(between, SIGKILL);
  waitpid(between, nullptr, __WCLONE);
  return Status(StatusCode::kUnavailable,
                "the agent for " + url + " did not start: start the program with 'tessera run --server " + url +
                    "', or start it by hand to see why (" + program + " --listen unix:PATH --server " + url + ")");
}

Result<std::string> AgentFor(const std::string& url) {
  const std::string program = AgentProgram();
  if (program.empty()) {
    return Status(
        StatusCode::kNotFound,
        "TESSERA_SERVER=" + url +
            " is on another host, and there is no tessera-agent beside this library to go there: install all of Tessera, "
            "start the program with 'tessera run --server " +
            url + "', or start a tessera-agent and write its unix:PATH");
  }
  const pid_t owner = OutermostWith(getpid(), "TESSERA_SERVER=" + GetConfig().server);
  const std::string directory = DirectoryFor(url, owner);
  const std::string socket_path = directory + kSocketName;
  std::string why;
  const UniqueFd lock = LockDirectory(directory, &why);
  if (!lock.valid()) return Status(StatusCode::kUnavailable, "no agent for " + url + ": " + why);
  if (SomebodyListens(socket_path)) return socket_path;
  RETURN_IF_ERROR(Start(program, url, socket_path, owner));
  LogInfo("an agent for {} has been started; it ends with process {}", url, owner);
  return socket_path;
}

}  // namespace

pid_t OutermostWith(pid_t pid, std::string_view variable) {
  pid_t found = pid;
  pid_t at = pid;
  for (int i = 0; i < kAncestorsMax && at > 0 && Has(at, variable); ++i) {
    found = at;
    at = ParentOf(at);
  }
  return found;
}

Status ReachOtherHosts(ServerList* list) {
  for (ServerList::Server& server : list->servers) {
    if (server.other_host.empty()) continue;
    Result<std::string> socket_path = AgentFor(server.other_host);
    if (!socket_path.ok()) return socket_path.status();
    server.unix_path = std::move(*socket_path);
  }
  return Status::Ok();
}

}  // namespace tessera
