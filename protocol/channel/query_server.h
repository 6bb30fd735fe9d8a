// Asks a server what it is and how its devices are, without beginning a session. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/server_query.h"

namespace tessera {

// How long a server that is alive may take: it answers a query before anything else, a reading of a device takes some
// milliseconds.
inline constexpr uint64_t kQueryTimeoutNs = 10'000'000'000;

// Connects to the socket at `path` and asks. Errors of ConnectToServer(), the server's refusal, kTimedOut when it is silent (a
// stopped server, or another program), kProtocolViolation when it answers something else. The version of the report
// is not checked: see CheckPeerVersion().
Result<ServerReport> QueryServer(const std::string& path, const ServerQuery& query, uint64_t deadline_ns);
// The same over a connection that somebody else has made, as ConnectToServer() does. `path`: for sentences.
Result<ServerReport> QueryServer(const UniqueFd& server, const std::string& path, const ServerQuery& query, uint64_t deadline_ns);

}  // namespace tessera
