// The node's main loop, in one thread: the core, and the connections to placer, broker and tesserad.
#pragma once

#include <functional>

#include "netaware/node/node_means.h"
#include "netaware/node/options.h"
#include "netaware/store/store.h"
#include "programs/service_notice.h"
#include "protocol/base/status.h"

namespace tessera {

// Runs until a signal ends it, or until the tesserad of --daemon-fd ends. `ready` is called when the node has begun. `notice`
// receives the node's heartbeat, its reconnects and its end. kInvalidArgument: the ledger is damaged; kUnavailable: the helper
// has ended; other errors: a system call failed. The call blocks signals in the calling thread and leaves them blocked. The
// process has to end soon after the return: detached threads still run.
Status RunNode(const NodeOptions& options, HelperLine& helper, Store& store, ServiceNotice& notice,
               const std::function<void()>& ready);

}  // namespace tessera
