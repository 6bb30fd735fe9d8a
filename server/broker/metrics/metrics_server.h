// Answers whoever asks a listening TCP socket for what the broker counts: HTTP, GET /metrics, in the text form of Prometheus.
//
//   RETURN_IF_ERROR(MetricsServer::Start(std::move(listener), board, restarts));    // in the sandbox
//
// One thread, less urgent than the broker's, which it never asks for anything. Whoever connects is told: the socket is one of the
// loopback device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/broker/metrics.h"

namespace tessera {

class MetricsServer {
 public:
  static constexpr size_t kConnectionsMax = 16;        // beyond it the oldest is closed
  static constexpr int64_t kAnswerNs = 5'000'000'000;  // for a request to come and its answer to be read
  static constexpr int kNice = 5;                      // more than the broker's

  // Starts a thread that goes on until the process ends; so does `board`. `restarts`: of the broker.
  static Status Start(UniqueFd listener, MetricsBoard& board, uint64_t restarts);
};

}  // namespace tessera
