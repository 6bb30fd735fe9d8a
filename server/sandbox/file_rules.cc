#include "server/sandbox/file_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

// Numbers of the kernel's interface that this machine's headers may not name yet.
constexpr uint64_t kRefer = 1ull << 13;     // version 2
constexpr uint64_t kTruncate = 1ull << 14;  // version 3
constexpr uint64_t kBindTcp = 1ull << 0;    // version 4
constexpr uint64_t kConnectTcp = 1ull << 1;
constexpr uint64_t kScopeAbstractSocket = 1ull << 0;  // version 6
constexpr uint64_t kScopeSignal = 1ull << 1;

// struct landlock_ruleset_attr as of version 6.
struct RulesetAttributes {
  uint64_t handled_access_fs = 0;
  uint64_t handled_access_net = 0;
  uint64_t scoped = 0;
};

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr uint64_t kReadDirectory = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWriteFile = kReadFile | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr uint64_t kWriteDirectory = kWriteFile | kReadDirectory | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR;

uint64_t HandledBy(int version) {
  uint64_t handled = (1ull << 13) - 1;  // version 1
  if (version >= 2) handled |= kRefer;
  if (version >= 3) handled |= kTruncate;
  return handled;
}

uint64_t AccessOf(const FileRule& rule, bool directory) {
  if (rule.access == FileRule::Access::kRead) return directory ? kReadDirectory : kReadFile;
  return directory ? kWriteDirectory : kWriteFile;
}

Status AddRule(int ruleset, const FileRule& rule, uint64_t handled) {
  const UniqueFd file(open(rule.path.c_str(), O_PATH | O_CLOEXEC));
  if (!file.valid()) return Status::Ok();  // not there, or not this user's to see: then it cannot be opened either
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return Status::FromErrno("cannot look at " + rule.path, errno);
  landlock_path_beneath_attr attributes{};
  attributes.allowed_access = AccessOf(rule, S_ISDIR(status.st_mode)) & handled;
  attributes.parent_fd = file.get();
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attributes, 0) == 0) return Status::Ok();
  return Status::FromErrno("cannot allow " + rule.path, errno);
}

// Where the driver keeps what it compiled. Source: CUDA C Programming Guide, "CUDA Environment Variables".
std::string CacheDirectory(bool own_user) {
  if (const char* path = getenv("CUDA_CACHE_PATH")) return path;
  const char* home = own_user ? getenv("HOME") : nullptr;
  return home != nullptr ? std::string(home) + "/.nv" : std::string();
}

// Code of the system and this process in /proc, which whoever loads libraries as it goes needs.
std::vector<FileRule> SystemFileRules(const std::vector<std::string>& library_directories) {
  using enum FileRule::Access;
  std::vector<FileRule> rules;
  for (const char* path : {"/usr", "/lib", "/lib64", "/lib32", "/bin", "/sys"}) rules.push_back({path, kRead});
  for (const std::string& path : library_directories) rules.push_back({path, kRead});
  // Of /proc this process alone, and what describes the machine.
  for (const char* path : {"/proc/driver", "/proc/devices", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/modules",
                           "/proc/filesystems", "/proc/version", "/proc/uptime", "/proc/loadavg", "/proc/sys"}) {
    rules.push_back({path, kRead});
  }
  rules.push_back({"/proc/self", kReadWrite});
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    rules.push_back({path, kReadWrite});
  return rules;
}

}  // namespace

std::vector<FileRule> NetworkFileRules(const std::vector<std::string>& library_directories) {
  using enum FileRule::Access;
  std::vector<FileRule> rules = SystemFileRules(library_directories);
  // What names hosts and name servers, and what libraries of cards are set with.
  for (const char* path : {"/etc", "/opt", "/run/systemd/resolve"}) rules.push_back({path, kRead});
  rules.push_back({"/dev/infiniband", kReadWrite});
  return rules;
}

std::vector<FileRule> WorkerFileRules(const std::vector<std::string>& library_directories) {
  using enum FileRule::Access;
  std::vector<FileRule> rules = SystemFileRules(library_directories);
  // Settings of the system: the driver loads its compilers when the first program needs them.
  for (const char* path : {"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/nvidia", "/etc/localtime",
                           "/etc/nsswitch.conf", "/opt/nvidia", "/run/nvidia"}) {
    rules.push_back({path, kRead});
  }
  rules.push_back({kSharedMemory, kReadWrite});
  glob_t devices{};
  if (glob("/dev/nvidia*", 0, nullptr, &devices) == 0) {
    for (size_t i = 0; i < devices.gl_pathc; ++i) rules.push_back({devices.gl_pathv[i], kReadWrite});
  }
  globfree(&devices);
  return rules;
}

std::optional<FileRule> CompileCacheRule(bool own_user) {
  const std::string cache = CacheDirectory(own_user);
  if (cache.empty()) return std::nullopt;
  std::error_code none;
  if (own_user) std::filesystem::create_directories(cache, none);
  return FileRule{cache, FileRule::Access::kReadWrite};
}

int LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

Status RestrictFiles(const std::vector<FileRule>& rules, bool networks) {
  const int version = LandlockVersion();
  if (version == 0) return Status(StatusCode::kUnsupported, "this kernel has no Landlock: files are not protected");
  RulesetAttributes attributes;
  attributes.handled_access_fs = HandledBy(version);
  if (version >= 4 && !networks) attributes.handled_access_net = kBindTcp | kConnectTcp;
  if (version >= 6) attributes.scoped = kScopeAbstractSocket | kScopeSignal;
  // Older kernels want the fields they do not know to be zero, which they are.
  const UniqueFd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0)));
  if (!ruleset.valid()) return Status::FromErrno("cannot make a Landlock ruleset", errno);
  for (const FileRule& rule : rules) RETURN_IF_ERROR(AddRule(ruleset.get(), rule, attributes.handled_access_fs));
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) == 0) return Status::Ok();
  return Status::FromErrno("cannot enforce a Landlock ruleset", errno);
}

bool RulesAllow(const std::vector<FileRule>& rules, const std::string& path, bool write) {
  std::error_code error;
  const std::string wanted = std::filesystem::weakly_canonical(path, error).string();
  for (const FileRule& rule : rules) {
    if (write && rule.access == FileRule::Access::kRead) continue;
    const std::string allowed = std::filesystem::weakly_canonical(rule.path, error).string();
    if (allowed.empty()) continue;  // not this user's to look at
    if (wanted == allowed || wanted.starts_with(allowed + "/")) return true;
  }
  return false;
}

}  // namespace tessera
