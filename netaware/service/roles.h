// The rights of a placer's callers, by user of this host or by name in a certificate. Plain values; pure; any thread.
//
//   [roles]
//   "name:gpu7" = "server"        # joins the pool as gpu7, and nobody else does
//   "name:alice" = "tenant"       # asks for GPUs, and sees her own
//   "uid:1000" = "admin"          # everything
//   "name:wall" = "viewer"        # sees everything
//   others = "tenant"             # or "nobody": all that are not named
//   [users]
//   "uid:1000" = "name:alice"     # this user of the placer's host asks as alice, whom servers of other hosts know
//   [rights]
//   "name:alice" = ["protected"]  # may ask for --priority protected; apart from her only admins may
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/rpc/standing.h"

namespace tessera {

enum class Role { kNobody, kTenant, kServer, kViewer, kAdmin };
// The word in a file of roles, such as "nobody".
const char* WordOf(Role role);

struct Roles {
  std::map<std::string, Role, std::less<>> of{};  // by holder
  Role others = Role::kTenant;
  std::set<std::string, std::less<>> with_protected{};  // holders
  std::map<std::string, std::string> names{};           // by user of this host: the holder of the grants he asks for

  // Parses `text`, the contents of the file at `path`. kInvalidArgument, with the file and the line: no TOML, an unknown key,
  // role or right, no holder, no user, no name.
  static Result<Roles> Parse(std::string_view text, const std::string& path);
  // A user without a role of his own has that of his name.
  Role RoleOf(std::string_view holder) const;
  // The holder of the grants that `holder` asks for: his name, else himself.
  std::string NamedBy(const std::string& holder) const;

  bool MayAsk(std::string_view holder) const { return RoleOf(holder) == Role::kTenant || RoleOf(holder) == Role::kAdmin; }
  // True if his jobs may be protected: he or his name has the right, or he is an administrator.
  bool MayBeProtected(std::string_view holder) const;
  bool MayJoin(std::string_view holder) const { return RoleOf(holder) == Role::kServer || RoleOf(holder) == Role::kAdmin; }
  // True if a holder that may join may do so as `server`. When the roles name a server X, only that holder may be X, or any
  // leading part of X before a dot: of "gpu7.example" also "gpu7". An administrator's server has any name.
  bool MayBeServer(std::string_view holder, std::string_view server) const;
  bool SeesAll(std::string_view holder) const { return RoleOf(holder) == Role::kViewer || RoleOf(holder) == Role::kAdmin; }
  // The standing that sets his part of the placer's connections, calls and memory.
  Standing StandingOf(std::string_view holder) const;
  bool MayEndAll(std::string_view holder) const { return RoleOf(holder) == Role::kAdmin; }
};

}  // namespace tessera
