// A whole pool at a glance, for people and for programs. Text of the placer is made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/placement.pb.h"

namespace tessera {

// Lines of a screen that a text without `wide` keeps to, where a pool has ten servers.
inline constexpr size_t kScreenLines = 24;

// {"schema_version": 1, "placer", "totals": {...}, "servers": [{..., "gpus": [...]}], "waiting": [...], "grants": [...]}. Servers
// and GPUs as of `get`, servers with sums of their GPUs, of the grants that the asker sees, and of the sessions in them; so are
// the grants, with "sessions". What totals have as free is free at servers that are offered.
nlohmann::json StatusAsJson(const std::string& placer, const control::v1::ServerList& servers,
                            const control::v1::GrantList& grants);
// A line in all, a table of servers, one of grants: those that wait before those that are granted. `wide`: a table of GPUs too,
// and all grants with all of their reasons.
std::string StatusText(const std::string& placer, const control::v1::ServerList& servers, const control::v1::GrantList& grants,
                       bool wide);

}  // namespace tessera
