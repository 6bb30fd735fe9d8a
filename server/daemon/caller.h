// Who has connected to the daemon's socket, and whose sessions it may see. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {

struct Caller {
  std::string holder = {};  // protocol/wire/holder.h; never empty
  bool is_remote = false;   // of another host, by way of the server's own gateway
  bool sees_all = false;    // an administrator
};

// A user of this host as the kernel names him. Users without a number in the user namespace of this process have the same one
// there, so none of them proves by it who he is: anonymous.
std::string HolderOfUser(uid_t user);

// `gateway`: the process of the daemon's own gateway, -1: none runs. `said`: the holder of the hello or query, which counts from
// that process alone, and there for names alone: a gateway that was taken over can be none of the host's users. Anybody else is
// HolderOfUser() of the peer. Administrators are root, the daemon's own user, and `administrators`; but a process that speaks
// for others, as somebody's own gateway does (it says a holder), is none.
Caller CallerOf(const PeerCredentials& peer, pid_t gateway, const std::string& said,
                const std::vector<std::string>& administrators);

// Whoever has proved nothing is one with all others who have not.
inline bool Sees(const Caller& caller, const std::string& holder) { return caller.sees_all || caller.holder == holder; }

// A value of --admin as a holder: a user's name or uid:N, name:X of a certificate. kInvalidArgument: no such user. Asks the
// host's database of users.
Result<std::string> ParseAdministrator(const std::string& text);

}  // namespace tessera
