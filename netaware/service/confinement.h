// What the placer gives up, and who does in its place what it can do no more.
#pragma once

#include <memory>
#include <vector>

#include "netaware/service/options.h"
#include "protocol/base/status.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/keeper/helper.h"

namespace tessera {

// The act that removes the files of the sockets that it listened at.
inline constexpr const char* kRemoveSockets = "remove the sockets";

// A process that may read the policy and the files of keys, and knows kRemoveSockets. Before the second thread. `users` outlives
// the call alone.
Result<std::unique_ptr<HelperLine>> StartPlacerHelper(const PlacerOptions& options, const std::vector<UnixListener>& users);

// After the addresses were bound, the store opened, and what is read once was read. Errors as of EnterSandbox().
Status EnterPlacerSandbox(const PlacerOptions& options);

}  // namespace tessera
