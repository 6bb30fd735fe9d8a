#include "netaware/cli/server_check.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "protocol/base/unique_fd.h"

namespace tessera {

ServerProblem CheckServer(const std::string& url) {
  constexpr std::string_view kScheme = "unix:";
  if (!std::string_view(url).starts_with(kScheme)) {
    return {kExitUnknownScheme, "the server address '" + url + "' has no known scheme: this version takes unix:PATH"};
  }
  const std::string path = url.substr(kScheme.size());
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return {kExitUsage, "the socket path of '" + url + "' is empty or longer than 107 bytes: use a shorter one"};
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return {};
  switch (errno) {
    case EACCES:
    case EPERM:
      return {kExitPermission, "the socket " + path + " may not be used by this user: ask its owner, or start tesserad yourself"};
    case ENOENT:
      return {kExitUnreachable, "there is no socket at " + path + ": start one with 'tesserad --listen " + url + "'"};
    case ECONNREFUSED:
      return {kExitUnreachable, "nobody listens at " + path + " any more: start 'tesserad --listen " + url + "' again"};
    default:
      return {kExitUnreachable, "the server at " + path + " cannot be reached: " + std::strerror(errno)};
  }
}

}  // namespace tessera
