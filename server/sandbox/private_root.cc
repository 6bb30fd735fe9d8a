#include "server/sandbox/private_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/capabilities.h"

namespace tessera {
namespace {

// Calls and numbers of Linux 5.2 and 5.12, which the C library may not have yet.
constexpr unsigned kOpenTreeClone = 1;
constexpr unsigned kCloseOnExec = 0x1;         // FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC
constexpr unsigned kSetString = 1;             // FSCONFIG_SET_STRING
constexpr unsigned kCreate = 6;                // FSCONFIG_CMD_CREATE
constexpr unsigned kMoveFromDescriptor = 0x4;  // MOVE_MOUNT_F_EMPTY_PATH
constexpr unsigned kRecursive = 0x8000;        // AT_RECURSIVE
constexpr uint64_t kReadOnly = 0x1;            // MOUNT_ATTR_RDONLY
constexpr uint64_t kNoSetUser = 0x2;           // MOUNT_ATTR_NOSUID
// Where the new root is filled: a directory that every machine has.
constexpr const char* kWorkPlace = "/proc";

// struct mount_attr.
struct MountAttributes {
  uint64_t set = 0;
  uint64_t clear = 0;
  uint64_t propagation = 0;
  uint64_t user_namespace = 0;
};

Status Refused(const std::string& what, int error) {
  return Status(StatusCode::kUnsupported, what + ": " + std::strerror(error));
}

bool WriteFile(const char* path, const std::string& text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  return file.valid() && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// With the rights to mount, in namespaces of this process alone, as the user that it is.
Status EnterNamespaces(Network network) {
  const int own = CLONE_NEWNS | (network == Network::kNone ? CLONE_NEWNET : 0);
  if (unshare(own) == 0) return Status::Ok();
  if (errno != EPERM) return Refused("the kernel gives this process no namespaces", errno);
  // Else its namespace would lack it (user_namespaces(7), "Defining user and group ID mappings").
  if (geteuid() == 0 && !HasCapability(CAP_SETFCAP)) {
    return Status(StatusCode::kUnsupported, "the kernel lets root mount only with CAP_SYS_ADMIN or CAP_SETFCAP");
  }
  const uid_t user = geteuid();
  const gid_t group = getegid();
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // else the files below are root's, in a process that has changed its user
  if (unshare(CLONE_NEWUSER | own) != 0) return Refused("the kernel gives this process no namespaces", errno);
  const auto same = [](uint64_t id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  if (!WriteFile("/proc/self/setgroups", "deny") || !WriteFile("/proc/self/uid_map", same(user)) ||
      !WriteFile("/proc/self/gid_map", same(group))) {
    return Refused("a user namespace does not take its user", errno);
  }
  return Status::Ok();
}

bool SetAttributes(int tree, const char* path, unsigned flags, uint64_t set) {
  const MountAttributes attributes{.set = set};
  return syscall(SYS_mount_setattr, tree, path, flags, &attributes, sizeof(attributes)) == 0;
}

// A part of the machine's files, taken along before the machine's root is out of sight.
struct Part {
  std::string path;
  FileRule::Access access;
  bool is_directory;
  UniqueFd mount;
};

bool Contains(const Part& part, const std::string& path, FileRule::Access access) {
  if (access == FileRule::Access::kReadWrite && part.access == FileRule::Access::kRead) return false;
  return path == part.path || path.starts_with(part.path + "/");
}

// An empty file system, attached nowhere.
Result<UniqueFd> MakeEmpty(const char* mode, const char* size) {
  const UniqueFd context(static_cast<int>(syscall(SYS_fsopen, "tmpfs", kCloseOnExec)));
  if (!context.valid()) return Refused("cannot make a file system", errno);
  for (const auto& [name, value] : {std::pair("mode", mode), {"size", size}, {"nr_inodes", "1024"}}) {
    if (syscall(SYS_fsconfig, context.get(), kSetString, name, value, 0) != 0) return Refused("cannot make a file system", errno);
  }
  if (syscall(SYS_fsconfig, context.get(), kCreate, nullptr, nullptr, 0) != 0) return Refused("cannot make a file system", errno);
  UniqueFd mount(static_cast<int>(syscall(SYS_fsmount, context.get(), kCloseOnExec, kNoSetUser)));
  if (!mount.valid()) return Refused("cannot mount a file system", errno);
  return mount;
}

// What has a source of its own.
Status TakeSource(const FileRule& rule, std::vector<Part>* parts) {
  if (rule.source != kNewMemory) {
    UniqueFd mount(
        static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, rule.source.c_str(), kOpenTreeClone | kRecursive | O_CLOEXEC)));
    if (!mount.valid()) return Refused("cannot take " + rule.source + " along", errno);
    if (!SetAttributes(mount.get(), "", AT_EMPTY_PATH | kRecursive, kNoSetUser))
      return Refused("cannot protect " + rule.source, errno);
    parts->push_back({rule.path, rule.access, true, std::move(mount)});
    return Status::Ok();
  }
  Result<UniqueFd> mount = MakeEmpty("1777", "50%");
  if (!mount.ok()) return mount.status();
  parts->push_back({rule.path, rule.access, true, std::move(mount).value()});
  return Status::Ok();
}

// Takes what is at `path`, if there is anything.
Status Take(const std::string& path, FileRule::Access access, std::vector<Part>* parts) {
  if (path.size() < 2 || path[0] != '/') return Status::Ok();
  for (const Part& part : *parts) {
    if (Contains(part, path, access)) return Status::Ok();
  }
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return Status::Ok();
  UniqueFd mount(static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, path.c_str(), kOpenTreeClone | kRecursive | O_CLOEXEC)));
  if (!mount.valid()) return Refused("cannot take " + path + " along", errno);
  const uint64_t set = kNoSetUser | (access == FileRule::Access::kRead ? kReadOnly : 0);
  if (!SetAttributes(mount.get(), "", AT_EMPTY_PATH | kRecursive, set)) return Refused("cannot protect " + path, errno);
  parts->push_back({path, access, S_ISDIR(status.st_mode), std::move(mount)});
  return Status::Ok();
}

Status TakeAll(const std::vector<FileRule>& rules, std::vector<Part>* parts) {
  // Whole, and writable as far as the process may write there: its own entry is a link to a directory of another name.
  RETURN_IF_ERROR(Take("/proc", FileRule::Access::kReadWrite, parts));
  for (const FileRule& rule : rules) {
    if (!rule.source.empty()) {
      RETURN_IF_ERROR(TakeSource(rule, parts));
      continue;
    }
    RETURN_IF_ERROR(Take(rule.path, rule.access, parts));
    // Also under the name that is behind links: a library names the others beside it by that.
    std::error_code none;
    const std::string canonical = std::filesystem::canonical(rule.path, none).string();
    if (!canonical.empty()) RETURN_IF_ERROR(Take(canonical, rule.access, parts));
  }
  return Status::Ok();
}

// The umask that the places of a root are made with: what lies there is read by another user, whatever the service's own is
// (systemd's UMask=0077), which comes back at the end.
class UmaskOfPlaces {
 public:
  UmaskOfPlaces() = default;
  UmaskOfPlaces(const UmaskOfPlaces&) = delete;
  UmaskOfPlaces& operator=(const UmaskOfPlaces&) = delete;
  ~UmaskOfPlaces() { umask(before_); }

 private:
  mode_t before_ = umask(022);
};

// Makes an empty file or directory at `path` below `root`, with the directories above it. What is there stays.
bool MakePlace(int root, const std::string& path, bool is_directory) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    if (mkdirat(root, path.substr(1, end - 1).c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  const char* const name = path.c_str() + 1;
  if (is_directory) return mkdirat(root, name, 0755) == 0 || errno == EEXIST;
  return UniqueFd(openat(root, name, O_CREAT | O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0444)).valid() ||
         faccessat(root, name, F_OK, 0) == 0;
}

bool Attach(int mount, int directory, const char* path) {
  return syscall(SYS_move_mount, mount, "", directory, path, kMoveFromDescriptor) == 0;
}

// Fills the file system that is attached at kWorkPlace and makes it the root.
Status MoveInto(int root, const std::vector<Part>& parts) {
  const UmaskOfPlaces umask_of_places;
  for (const Part& part : parts) {
    if (!MakePlace(root, part.path, part.is_directory) || !Attach(part.mount.get(), root, part.path.c_str() + 1)) {
      return Refused("cannot show " + part.path, errno);
    }
  }
  if (!SetAttributes(root, "", AT_EMPTY_PATH, kReadOnly)) return Refused("cannot protect a file system", errno);
  // The old root comes to lie upon the new one and is taken away (pivot_root(2), "pivot_root(".", ".")").
  if (fchdir(root) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) return Refused("cannot change the root", errno);
  if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) return Status::FromErrno("cannot leave the old root", errno);
  return Status::Ok();
}

// In the process's own mount namespace.
Status MakeRoot(const std::vector<FileRule>& rules) {
  // What happens here is nobody else's, and the other way round.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return Refused("cannot separate mounts", errno);
  std::vector<Part> parts;
  RETURN_IF_ERROR(TakeAll(rules, &parts));
  Result<UniqueFd> root = MakeEmpty("0755", "64k");  // names of places alone
  if (!root.ok()) return root.status();
  if (!Attach(root->get(), AT_FDCWD, kWorkPlace)) return Refused("cannot mount a file system", errno);
  if (const Status moved = MoveInto(root->get(), parts); !moved.ok()) {
    umount2(kWorkPlace, MNT_DETACH);
    return moved;
  }
  return Status::Ok();
}

}  // namespace

Status EnterPrivateRoot(const std::vector<FileRule>& rules, Network network) {
  const bool may_mount = HasCapability(CAP_SYS_ADMIN);
  RETURN_IF_ERROR(EnterNamespaces(network));
  const Status made = MakeRoot(rules);
  if (!may_mount) RETURN_IF_ERROR(GiveUpCapabilities());  // whatever came of it: those of its user namespace
  return made;
}

}  // namespace tessera
