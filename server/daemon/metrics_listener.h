// Where the broker is asked for what it counts: the listening socket, which its sandbox could not make.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Whether `address` is HOST:PORT with a number above 0, HOST an IPv4 address, an IPv6 address in brackets, or localhost.
bool IsMetricsAddress(const std::string& address);
// A non-blocking TCP socket that listens there. kInvalidArgument: it is none, or beyond the loopback device: whoever connects is
// told everything; kUnavailable: somebody listens there; others of the system.
Result<UniqueFd> ListenForMetrics(const std::string& address);

}  // namespace tessera
