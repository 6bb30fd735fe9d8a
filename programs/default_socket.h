// Where services of this host listen that nobody has told where, and where commands look for them. Any thread that no other
// changes the environment beside.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "protocol/base/status.h"

namespace tessera {

// The services that have such a socket.
enum class DefaultSocket { kServer, kPlacer };

// The socket of root's service, which is the host's: /run/tessera/tessera.sock and /run/tessera/placer.sock. The environment's
// TESSERA_SOCKET_DIR names another directory than /run/tessera: for tests, and for hosts that keep sockets elsewhere.
std::string HostSocketPath(DefaultSocket service);

// The socket of this user's own service: root's is the host's, and so is anybody's with TESSERA_SOCKET_DIR; others have
// $XDG_RUNTIME_DIR/tessera.sock and tessera-placer.sock there, and where that is not set /tmp/tessera-UID instead of it.
// Empty: somebody else has made that.
std::string UserSocketPath(DefaultSocket service);

// Makes the directory of `path`, a UserSocketPath(), where there is none: the host's is for everybody to enter, another one for
// this user alone, and has to be this user's. The host's gets `group`, also when it was there and is this user's. An error names
// the directory.
Status MakeSocketDirectory(const std::string& path, std::optional<gid_t> group);

}  // namespace tessera
