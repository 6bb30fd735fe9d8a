// Asks a server what it is and how its devices are, without beginning a session. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/server_query.h"

namespace tessera {

// How long a live server may take. It answers a query before anything else; reading a device takes some milliseconds.
inline constexpr uint64_t kQueryTimeoutNs = 10'000'000'000;

// Connects to the socket at `path` and asks. Does not check the report's version: see CheckPeerVersion(). Errors of
// ConnectToServer(), and the server's refusal. kTimedOut: silence, from a stopped server or another program. kProtocolViolation:
// the answer is something else.
Result<ServerReport> QueryServer(const std::string& path, const ServerQuery& query, uint64_t deadline_ns);
// The same over a connection of ConnectToServer(). `path`: for messages.
Result<ServerReport> QueryServer(const UniqueFd& server, const std::string& path, const ServerQuery& query, uint64_t deadline_ns);

}  // namespace tessera
