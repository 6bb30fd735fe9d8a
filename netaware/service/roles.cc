#include "netaware/service/roles.h"

#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "protocol/base/printable.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr std::string_view kOthers = "others";

constexpr std::pair<const char*, Role> kWords[] = {{"nobody", Role::kNobody},
                                                   {"tenant", Role::kTenant},
                                                   {"server", Role::kServer},
                                                   {"viewer", Role::kViewer},
                                                   {"admin", Role::kAdmin}};

std::optional<Role> RoleNamed(std::string_view word) {
  for (const auto& [name, role] : kWords) {
    if (name == word) return role;
  }
  return std::nullopt;
}

using Invalid = std::function<Status(const toml::source_region& where, const std::string& why)>;

Status TakeRoles(const toml::table& table, const Invalid& invalid, Roles* roles) {
  for (const auto& [holder, value] : table) {
    const auto word = value.value<std::string>();
    const std::optional<Role> role = word ? RoleNamed(*word) : std::nullopt;
    if (!role)
      return invalid(value.source(),
                     fmt::format("the role of '{}' is none of nobody, tenant, server, viewer, admin", Printable(holder.str())));
    if (holder == kOthers) {
      if (*role != Role::kNobody && *role != Role::kTenant)
        return invalid(value.source(), "others are tenant or nobody: more is for whom a line names");
      roles->others = *role;
    } else if (IsHolder(holder.str())) {
      roles->of[std::string(holder.str())] = *role;
    } else {
      return invalid(value.source(), fmt::format("'{}' is nobody: write \"uid:N\" for a user of this host, or \"name:X\" for "
                                                 "the name in a certificate",
                                                 Printable(holder.str())));
    }
  }
  return Status::Ok();
}

Status TakeUsers(const toml::table& table, const Invalid& invalid, Roles* roles) {
  for (const auto& [user, value] : table) {
    if (!IsHolder(user.str()) || !UserOf(user.str()))
      return invalid(value.source(), fmt::format("'{}' is no user of this host: write \"uid:N\"", Printable(user.str())));
    const auto name = value.value<std::string>();
    if (!name || !IsHolder(*name) || !IsNameHolder(*name)) {
      return invalid(value.source(),
                     fmt::format("the name of '{}' is \"name:X\", with X as in his certificate ('tessera keys client X')",
                                 Printable(user.str())));
    }
    roles->names[std::string(user.str())] = *name;
  }
  return Status::Ok();
}

Status TakeRights(const toml::table& table, const Invalid& invalid, Roles* roles) {
  for (const auto& [holder, value] : table) {
    if (!IsHolder(holder.str())) {
      return invalid(value.source(), fmt::format("'{}' is nobody: write \"uid:N\" for a user of this host, or \"name:X\" for "
                                                 "the name in a certificate",
                                                 Printable(holder.str())));
    }
    const toml::array* const rights = value.as_array();
    const auto is_known = [](const toml::node& right) { return right.value<std::string>() == "protected"; };
    if (rights == nullptr || !std::all_of(rights->begin(), rights->end(), is_known)) {
      return invalid(value.source(),
                     fmt::format("the rights of '{}' are a list, and there is \"protected\" alone", Printable(holder.str())));
    }
    if (!rights->empty()) roles->with_protected.insert(std::string(holder.str()));
  }
  return Status::Ok();
}

constexpr std::pair<std::string_view, Status (*)(const toml::table&, const Invalid&, Roles*)> kSections[] = {
    {"roles", TakeRoles}, {"users", TakeUsers}, {"rights", TakeRights}};

}  // namespace

const char* WordOf(Role role) {
  for (const auto& [name, named] : kWords) {
    if (named == role) return name;
  }
  return "";
}

Result<Roles> Roles::Parse(std::string_view text, const std::string& path) {
  const auto invalid = [&](const toml::source_region& where, const std::string& why) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}, line {}: {}", path, where.begin.line, why));
  };
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return invalid(parsed.error().source(), std::string(parsed.error().description()));
  Roles roles;
  for (const auto& [section, node] : parsed.table()) {
    const toml::table* const table = node.as_table();
    const auto* const take =
        std::find_if(std::begin(kSections), std::end(kSections), [&](const auto& one) { return section == one.first; });
    if (table == nullptr || take == std::end(kSections)) {
      return invalid(node.source(),
                     fmt::format("'{}' is unknown: there are [roles], [users] and [rights]", Printable(section.str())));
    }
    RETURN_IF_ERROR(take->second(*table, invalid, &roles));
  }
  return roles;
}

Role Roles::RoleOf(std::string_view holder) const {
  if (const auto found = of.find(holder); found != of.end()) return found->second;
  const std::string name = NamedBy(std::string(holder));
  return name == holder ? others : RoleOf(name);
}

Standing Roles::StandingOf(std::string_view holder) const {
  switch (RoleOf(holder)) {
    case Role::kNobody: return Standing::kNobody;
    case Role::kTenant:
    case Role::kViewer: return Standing::kUsual;
    case Role::kServer:
    case Role::kAdmin: break;
  }
  return Standing::kTrusted;
}

bool Roles::MayBeServer(std::string_view holder, std::string_view server) const {
  if (RoleOf(holder) == Role::kAdmin) return true;
  const std::string own = NameHolder(server);
  bool is_anothers = false;
  for (const auto& [named, role] : of) {
    if (role != Role::kServer || (named != own && !named.starts_with(own + "."))) continue;
    if (named == holder) return true;
    is_anothers = true;
  }
  return !is_anothers;
}

bool Roles::MayBeProtected(std::string_view holder) const {
  if (RoleOf(holder) == Role::kAdmin || with_protected.contains(holder)) return true;
  return with_protected.contains(NamedBy(std::string(holder)));
}

std::string Roles::NamedBy(const std::string& holder) const {
  const auto name = names.find(holder);
  return name == names.end() ? holder : name->second;
}

}  // namespace tessera
