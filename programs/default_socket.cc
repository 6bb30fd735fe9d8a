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

}  // namespace

std::string HostSocketPath(DefaultSocket service) {
  return HostDirectory() + (service == DefaultSocket::kServer ? "/tessera.sock" : "/placer.sock");
}

std::string UserSocketPath(DefaultSocket service) {
  if (OwnsHostDirectory()) return HostSocketPath(service);
  const std::string runtime = DirectoryOf("XDG_RUNTIME_DIR");
  if (runtime.empty()) return "";
  return runtime + (service == DefaultSocket::kServer ? "/tessera.sock" : "/tessera-placer.sock");
}

Status MakeSocketDirectory(const std::string& path, std::optional<gid_t> group) {
  const std::string directory = path.substr(0, path.rfind('/'));
  const bool is_host = directory == HostDirectory();
  const bool is_new = mkdir(directory.c_str(), kForThisUser) == 0;
  if (!is_new && errno != EEXIST) return Status::FromErrno("cannot make the directory " + directory + " for the socket", errno);
  if (!is_host) return Status::Ok();
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0) return Status::FromErrno("cannot look at " + directory, errno);
  if (group && info.st_uid == geteuid() && lchown(directory.c_str(), static_cast<uid_t>(-1), *group) != 0)
    return Status::FromErrno("cannot give " + directory + " the group of --socket-group", errno);
  // Last, since it is not everybody's before: whatever the umask is.
  if (is_new && chmod(directory.c_str(), kForEverybody) != 0)
    return Status::FromErrno("cannot open " + directory + " to everybody", errno);
  return Status::Ok();
}

}  // namespace tessera
