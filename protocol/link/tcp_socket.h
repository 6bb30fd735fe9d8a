// What tcp_link.cc and tcp_connection.cc share; for them alone.
#pragma once

#include <memory>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"

namespace tessera {

// A link over a connected socket whose preambles have been exchanged.
Result<std::unique_ptr<Link>> MakeTcpLink(UniqueFd socket);

// Sends at once, and notices a dead host within kTcpSilenceMsMax, both when something waits to be acknowledged and when
// nothing is said.
Status PrepareTcpSocket(int socket);

// Why a connection is over, as a Status of kUnavailable.
Status DescribeTcpLoss(int error);

}  // namespace tessera
