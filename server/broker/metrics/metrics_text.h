// What a broker counts, in the text form of Prometheus (docs/watch-with-prometheus.md has the names). Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "server/broker/metrics.h"

namespace tessera {

// `before`: what was told last, for ratios over the time between; null: there was nothing. `restarts`: of the broker.
std::string MetricsText(const Metrics& metrics, const Metrics* before, uint64_t restarts);

}  // namespace tessera
