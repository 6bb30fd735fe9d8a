// Who may do what at a placer: by user of this host, or by name in a certificate. Plain values; pure; any thread.
//
//   [roles]
//   "name:gpu7" = "server"        # joins the pool, and nobody else does as gpu7
//   "name:alice" = "tenant"       # asks for GPUs, and sees what is hers
//   "uid:1000" = "admin"          # everything
//   "name:wall" = "viewer"        # sees everything
//   others = "tenant"             # or "nobody": whoever is not named
//   [users]
//   "uid:1000" = "name:alice"     # what this user of the placer's host asks for is hers: servers of other hosts know her
//   [rights]
//   "name:alice" = ["protected"]  # --priority protected: whoever is not named, and is no admin, may not ask for that
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/rpc/standing.h"

namespace tessera {

enum class Role { kNobody, kTenant, kServer, kViewer, kAdmin };
// As a file of roles has it: "nobody".
const char* WordOf(Role role);

struct Roles {
  std::map<std::string, Role, std::less<>> of{};  // by holder
  Role others = Role::kTenant;
  std::set<std::string, std::less<>> with_protected{};  // holders
  std::map<std::string, std::string> names{};           // of users of this host, as holders: whose it is what they ask for

  // Of `text`, the file at `path`. kInvalidArgument: with the file and the line: no TOML, an unknown key, role or right, no
  // holder, no user, no name.
  static Result<Roles> Parse(std::string_view text, const std::string& path);
  // Of a user without a role of his own: that of his name.
  Role RoleOf(std::string_view holder) const;
  // Whose it is what `holder` asks for: his name, else himself.
  std::string NamedBy(const std::string& holder) const;

  bool MayAsk(std::string_view holder) const { return RoleOf(holder) == Role::kTenant || RoleOf(holder) == Role::kAdmin; }
  // Whether a job may be protected: a right of his own or of his name.
  bool MayBeProtected(std::string_view holder) const;
  bool MayJoin(std::string_view holder) const { return RoleOf(holder) == Role::kServer || RoleOf(holder) == Role::kAdmin; }
  // Whether who may join may call itself `server`. When the roles name a server X, the server X is that one's alone, and so is
  // the first part of X: of "gpu7.example" also "gpu7". An administrator's server has any name.
  bool MayBeServer(std::string_view holder, std::string_view server) const;
  bool SeesAll(std::string_view holder) const { return RoleOf(holder) == Role::kViewer || RoleOf(holder) == Role::kAdmin; }
  // What he has of the placer's connections, calls and memory.
  Standing StandingOf(std::string_view holder) const;
  bool MayEndAll(std::string_view holder) const { return RoleOf(holder) == Role::kAdmin; }
};

}  // namespace tessera
