// Makes the listening socket of the broker's metrics, since the broker's sandbox does not allow it.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Whether `address` is HOST:PORT with a number above 0, HOST an IPv4 address, an IPv6 address in brackets, or localhost.
bool IsMetricsAddress(const std::string& address);
// A non-blocking TCP socket that listens at `address`. kInvalidArgument: it is no address, or is beyond the loopback device;
// anybody who connects is told everything. kUnavailable: somebody listens there already. Else system errors.
Result<UniqueFd> ListenForMetrics(const std::string& address);

}  // namespace tessera
