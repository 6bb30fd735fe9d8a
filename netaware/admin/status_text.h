// The overview of a pool, for people and for programs. The placer's text is made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/placement.pb.h"

namespace tessera {

// The lines of a screen: a text without `wide` fits it if the pool has ten servers.
inline constexpr size_t kScreenLines = 24;

// {"schema_version": 1, "placer", "totals": {...}, "servers": [{..., "gpus": [...]}], "waiting": [...], "grants": [...]}.
// Servers, GPUs and grants have the keys of `get`. Servers have also the sums of their GPUs, of the grants that the caller may
// see, and of those grants' sessions. Grants have also "sessions". In the totals, only offered servers count as free capacity.
nlohmann::json StatusAsJson(const std::string& placer, const control::v1::ServerList& servers,
                            const control::v1::GrantList& grants);
// One line with the totals, a table of servers and a table of grants, in which waiting grants come first. `wide`: also a table
// of GPUs, and all grants with their full reasons.
std::string StatusText(const std::string& placer, const control::v1::ServerList& servers, const control::v1::GrantList& grants,
                       bool wide);

}  // namespace tessera
