#include "server/sandbox/call_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "protocol/base/log.h"
#include "server/sandbox/call_filter.h"

namespace tessera {
namespace {

// The text at an address of this process, which may be anything.
std::string TextAt(int memory, uint64_t address) {
  char text[4096] = {};
  const ssize_t size = pread(memory, text, sizeof(text) - 1, static_cast<off_t>(address));
  return size > 0 ? std::string(text) : std::string();
}

// What would be refused of this call; "" for nothing.
std::string RefusalOf(const seccomp_data& call, int memory, const std::vector<FileRule>& rules) {
  uint64_t path_at = 0;
  bool write = false;
  switch (call.nr) {
    case SYS_openat:
      path_at = call.args[1];
      write = (call.args[2] & (O_WRONLY | O_RDWR)) != 0;
      break;
    case SYS_openat2: path_at = call.args[1]; break;
#if defined(__x86_64__)
    case SYS_open:
      path_at = call.args[0];
      write = (call.args[1] & (O_WRONLY | O_RDWR)) != 0;
      break;
    case SYS_creat:
      path_at = call.args[0];
      write = true;
      break;
#endif
    default: return fmt::format("{}({:#x}, {:#x}, {:#x})", CallName(call.nr), call.args[0], call.args[1], call.args[2]);
  }
  const std::string path = TextAt(memory, path_at);
  // Below a directory that was opened it was looked at when that was.
  if (path.empty() || path[0] != '/' || RulesAllow(rules, path, write)) return "";
  return fmt::format("opening {} to {}", path, write ? "write" : "read");
}

void Watch(int calls, int memory, const std::vector<FileRule>& rules) {
  std::set<std::string> told;
  for (;;) {
    seccomp_notif call{};
    if (ioctl(calls, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return LogError("system calls are not watched any more: errno {}", errno);
    }
    const std::string refusal = RefusalOf(call.data, memory, rules);
    if (!refusal.empty() && told.insert(refusal).second) LogWarning("the sandbox would refuse {}", refusal);
    seccomp_notif_resp answer{};
    answer.id = call.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(calls, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

}  // namespace

void StartCallWatch(std::future<UniqueFd> calls, UniqueFd memory, std::vector<FileRule> rules) {
  std::thread([calls = std::move(calls), memory = std::move(memory), rules = std::move(rules)]() mutable {
    if (const UniqueFd watched = calls.get(); watched.valid()) Watch(watched.get(), memory.get(), rules);
  }).detach();
}

}  // namespace tessera
