// Who may do what at a placer: by user of this host, or by name in a certificate. Plain values; pure; any thread.
//
//   [roles]
//   "name:gpu7" = "server"        # joins the pool
//   "name:alice" = "tenant"       # asks for GPUs, and sees what is hers
//   "uid:1000" = "admin"          # everything
//   "name:wall" = "viewer"        # sees everything
//   others = "tenant"             # or "nobody": whoever is not named
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "protocol/base/status.h"

namespace tessera {

enum class Role { kNobody, kTenant, kServer, kViewer, kAdmin };
// As a file of roles has it: "nobody".
const char* WordOf(Role role);

struct Roles {
  std::map<std::string, Role, std::less<>> of{};  // by holder
  Role others = Role::kTenant;

  // Of `text`, the file at `path`. kInvalidArgument: with the file and the line: no TOML, an unknown key or role, no holder.
  static Result<Roles> Parse(std::string_view text, const std::string& path);
  Role RoleOf(std::string_view holder) const;

  bool MayAsk(std::string_view holder) const { return RoleOf(holder) == Role::kTenant || RoleOf(holder) == Role::kAdmin; }
  bool MayJoin(std::string_view holder) const { return RoleOf(holder) == Role::kServer || RoleOf(holder) == Role::kAdmin; }
  bool SeesAll(std::string_view holder) const { return RoleOf(holder) == Role::kViewer || RoleOf(holder) == Role::kAdmin; }
  bool MayEndAll(std::string_view holder) const { return RoleOf(holder) == Role::kAdmin; }
};

}  // namespace tessera
