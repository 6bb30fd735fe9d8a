// The loop of tessera-broker: the line to the daemon, eventfds, processes, time.
#pragma once

#include <functional>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/broker/broker.h"
#include "server/broker/call_queue.h"
#include "server/broker/metrics.h"

namespace tessera {

// Messages of the daemon's that are taken before sessions are looked at again.
inline constexpr int kMessagesAtOnce = 64;
// Answers that wait for a daemon that does not read.
inline constexpr size_t kUnsentMax = 1'024;

// Serves the daemon at the other end of `line`. Its first message, which names the GPUs, opens all files that there will be; then
// `confine` is called, before anything of a worker's is looked at. Until it hangs up, or until SIGTERM or SIGINT: Ok. Those
// signals are blocked in the calling thread. `calls`: of the control API's front, which `confine` may start; null: there is none.
// `board`: where it says once a second what it counts; null: nobody asks. Errors of Broker::Take(); kUnavailable: the daemon does
// not read its answers.
Status RunBroker(UniqueFd line, const BrokerOptions& options, CallQueue* calls, MetricsBoard* board,
                 const std::function<Status()>& confine);

}  // namespace tessera
