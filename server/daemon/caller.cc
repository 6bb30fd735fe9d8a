#include "server/daemon/caller.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "protocol/channel/server_user.h"
#include "protocol/wire/holder.h"

namespace tessera {

std::string HolderOfUser(uid_t user) { return IsUnknownUser(user) ? std::string(kAnonymousHolder) : UserHolder(user); }

Caller CallerOf(const PeerCredentials& peer, pid_t gateway, const std::string& said,
                const std::vector<std::string>& administrators) {
  Caller caller;
  caller.is_remote = gateway > 0 && peer.pid == gateway;
  if (caller.is_remote) {
    caller.holder = IsNameHolder(said) ? said : kAnonymousHolder;
  } else {
    caller.holder = HolderOfUser(peer.uid);
    if (!said.empty() || caller.holder == kAnonymousHolder) return caller;
    caller.sees_all = peer.uid == 0 || peer.uid == geteuid();
  }
  caller.sees_all = caller.sees_all || std::ranges::count(administrators, caller.holder) > 0;
  return caller;
}

Result<std::string> ParseAdministrator(const std::string& text) {
  if (UserOf(text) || IsNameHolder(text)) return text;
  if (const passwd* user = getpwnam(text.c_str())) return UserHolder(user->pw_uid);
  return Status(
      StatusCode::kInvalidArgument,
      "there is no user '" + text + "': --admin takes the name of a user of this host, uid:N, or name:X of a certificate");
}

}  // namespace tessera
