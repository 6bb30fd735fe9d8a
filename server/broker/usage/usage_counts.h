// From what a broker counts to usage records: what came between two looks. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/broker/metrics.h"
#include "server/usage/usage_line.h"

namespace tessera {

// What each vGPU but `default` used since `before` (null: since the broker's begin), as records of `second`; none for one that
// has no sessions and used nothing. In batches that fit into a message.
std::vector<UsageBatch> UsageSince(const Metrics* before, const Metrics& now, int64_t second);

}  // namespace tessera
