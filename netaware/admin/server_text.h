// Servers that an administrator has changed, for people and for programs. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/admin.pb.h"
#include "netaware/pool/pool_options.h"

namespace tessera {

// {"reason", "by", "drains", "ends_in_ms" (a number, or null: never)}; null: it is not cordoned.
nlohmann::json CordonAsJson(const control::v1::ServerCordon* cordon);
// As "its fans are changed (by uid:0); drains, what is left ends in 30 s".
std::string Describe(const control::v1::ServerCordon& cordon);

// {"server", "cordon", "dry_run", "grants": as of `tessera get grants`}.
nlohmann::json AsJson(const control::v1::ServerChange& change, const PoolOptions& asked);
// A line for the server, and for a drain one for each grant that is there.
std::string Describe(const control::v1::ServerChange& change, const PoolOptions& asked);

// "30 s", "2 h", "1.5 s": in the largest unit that is whole.
std::string TimeText(int64_t ms);

}  // namespace tessera
