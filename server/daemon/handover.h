// How a worker process gets its client: over a socket to the daemon comes first what to load the driver for, later the client's
// connection. Both ends are ours: nothing here is checked against malice.
#pragma once

#include <utility>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"

namespace tessera {

// The daemon. Of `hello` counts what a driver is loaded with: devices, environment, session index.
Status SendWish(int socket, const ClientHello& hello);
Status SendClient(int socket, int connection);

// The worker. Each waits for as long as it takes; kUnavailable when the daemon has no use for this process any more.
Result<ClientHello> ReceiveWish(int socket);
Result<UniqueFd> ReceiveClient(int socket);
// A process that can serve nobody: from now on SendClient() fails, and ReceiveClient() gives a client that is there already, who is
// to be told why, or kUnavailable.
void TakeNoMoreClients(int socket);
// Whether ReceiveClient() would not wait.
bool ClientWaits(int socket);

}  // namespace tessera
