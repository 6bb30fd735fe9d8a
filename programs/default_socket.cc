#include "programs/default_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera {
namespace {

constexpr mode_t kForEverybody = 0755;
constexpr mode_t kForThisUser = 0700;

// A directory that the environment names; empty: it names none.
std::string DirectoryOf(const char* variable) {
  const char* const value = getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string HostDirectory() {
  const std::string named = DirectoryOf("TESSERA_SOCKET_DIR");
  return named.empty() ? "/run/tessera" : named;
}

bool OwnsHostDirectory() { return geteuid() == 0 || !DirectoryOf("TESSERA_SOCKET_DIR").empty(); }

// Anybody may have made one in /tmp.
bool IsThisUsers(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

std::string HostSocketPath(DefaultSocket service) {
  return HostDirectory() + (service == DefaultSocket::kServer ? "/tessera.sock" : "/placer.sock");
}

std::string UserSocketPath(DefaultSocket service) {
  if (OwnsHostDirectory()) return HostSocketPath(service);
  std::string runtime = DirectoryOf("XDG_RUNTIME_DIR");
  if (runtime.empty()) {
    runtime = "/tmp/tessera-" + std::to_string(geteuid());
    struct stat info {};
    if (lstat(runtime.c_str(), &info) == 0 && !IsThisUsers(info)) return "";
  }
  return runtime + (service == DefaultSocket::kServer ? "/tessera.sock" : "/tessera-placer.sock");
}

Status MakeSocketDirectory(const std::string& path, std::optional<gid_t> group) {
  const std::string directory = path.substr(0, path.rfind('/'));
  const bool is_host = directory == HostDirectory();
  const bool is_new = mkdir(directory.c_str(), kForThisUser) == 0;
  if (!is_new && errno != EEXIST) return Status::FromErrno("cannot make the directory " + directory + " for the socket", errno);
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0) return Status::FromErrno("cannot look at " + directory, errno);
  if (!is_host) {
    if (IsThisUsers(info)) return Status::Ok();
    return Status(StatusCode::kPermissionDenied,
                  directory + " is another user's, or others may write to it: remove it, or set XDG_RUNTIME_DIR");
  }
  if (group && info.st_uid == geteuid() && lchown(directory.c_str(), static_cast<uid_t>(-1), *group) != 0)
    return Status::FromErrno("cannot give " + directory + " the group of --socket-group", errno);
  // Last, since it is not everybody's before: whatever the umask is.
  if (is_new && chmod(directory.c_str(), kForEverybody) != 0)
    return Status::FromErrno("cannot open " + directory + " to everybody", errno);
  return Status::Ok();
}

}  // namespace tessera
