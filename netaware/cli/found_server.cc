#include "netaware/cli/found_server.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

#include "netaware/cli/server_check.h"
#include "programs/default_socket.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {

FoundServer FoundServer::Find() {
  const std::string own = UserSocketPath(DefaultSocket::kServer);
  const std::string host = HostSocketPath(DefaultSocket::kServer);
  FoundServer found;
  for (const std::string& path : {own, host}) {
    // access() on the host's socket first: it costs less than a failed connect.
    if (path.empty() || (path == host && path != own && access(path.c_str(), F_OK) != 0)) continue;
    const Result<UniqueFd> connection = TryConnectUnix(path);
    // A timeout means that the server exists, but its queue of connections is full.
    if (connection.ok() || connection.status().code() == StatusCode::kTimedOut) return {std::string(kUnixScheme) + path, ""};
    if (connection.status().code() == StatusCode::kPermissionDenied) found.closed = std::string(kUnixScheme) + path;
    if (own == host) break;
  }
  return found;
}

std::string FoundServer::Places() {
  const std::string own = UserSocketPath(DefaultSocket::kServer);
  const std::string host = HostSocketPath(DefaultSocket::kServer);
  std::string places = own.empty() || own == host ? "" : std::string(kUnixScheme) + own + " or ";
  return places + std::string(kUnixScheme) + host;
}

void FoundServer::Say() const {
  std::fprintf(stderr, "tessera: server %s of this host, since none is named (--server, TESSERA_SERVER)\n", url.c_str());
}

void FoundServer::SetVariable() {
  if (const char* const named = getenv("TESSERA_SERVER"); named != nullptr && *named != '\0') return;
  const FoundServer found = Find();
  if (found.url.empty()) return;
  found.Say();
  setenv("TESSERA_SERVER", found.url.c_str(), 1);
}

}  // namespace tessera
