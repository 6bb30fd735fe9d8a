// Servers that an administrator has changed, for people and for programs. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/admin.pb.h"
#include "netaware/pool/pool_options.h"

namespace tessera {

// {"reason", "by", "drains", "ends_in_ms" (a number, or null: never)}; null: it is not cordoned.
nlohmann::json CordonAsJson(const control::v1::ServerCordon* cordon);
// For example "its fans are changed (by uid:0); drains, what is left ends in 30 s".
std::string Describe(const control::v1::ServerCordon& cordon);

// {"server", "cordon", "dry_run", "grants": as in `tessera get grants`}.
nlohmann::json AsJson(const control::v1::ServerChange& change, const PoolOptions& asked);
// One line for the server; for a drain also one line for each grant on it.
std::string Describe(const control::v1::ServerChange& change, const PoolOptions& asked);

// "30 s", "2 h", "1.5 s": in hours or minutes if that is a whole number, else in seconds.
std::string TimeText(int64_t ms);

}  // namespace tessera
