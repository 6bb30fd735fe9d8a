// The node's one thread: the core, and the lines to placer, broker and tesserad.
#pragma once

#include <functional>

#include "netaware/node/node_means.h"
#include "netaware/node/options.h"
#include "netaware/store/store.h"
#include "programs/service_notice.h"
#include "protocol/base/status.h"

namespace tessera {

// Goes on until a signal ends it, or the tesserad of --daemon-fd. `ready`: called when it has begun. `notice` hears that it
// lives, connects anew, and ends. kInvalidArgument: the ledger is damaged; kUnavailable: the helper has ended; else the sentence
// of a system call that failed.
// Signals are blocked in the calling thread from then on. The process ends soon after: threads go on.
Status RunNode(const NodeOptions& options, HelperLine& helper, Store& store, ServiceNotice& notice,
               const std::function<void()>& ready);

}  // namespace tessera
