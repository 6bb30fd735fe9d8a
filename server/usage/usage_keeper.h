// The process that keeps usage records: it has a directory, which the broker may not have, and waits for its disk, which the
// broker cannot.
//
// What comes is written every kWriteNs, as one transaction. A disk that is full, or a database that is damaged, is a warning:
// records wait, kWaitingMax of them, and the oldest are lost then; it is tried again every kAgainNs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

struct UsageKeeperOptions {
  static constexpr uint64_t kWriteNs = 10'000'000'000;
  static constexpr uint64_t kFreshNs = 1'000'000'000;  // who asks sees what is older than that
  static constexpr uint64_t kAgainNs = 10'000'000'000;
  static constexpr uint64_t kDropNs = 3'600'000'000'000;
  static constexpr size_t kWaitingMax = 100'000;

  std::string directory{};  // is made where there is none
  uint32_t days = 7;        // that records are kept
  uid_t user = 0;           // to whom root gives the directory; 0: it stays root's
  UniqueFd opened{};        // is told what is wrong with the directory, nothing if it is right, and closed
  std::function<Status()> confine = {};
};

// Serves the broker at the other end of `line` until SIGTERM or SIGINT, and writes what is left. Ok then. Errors: of `confine`,
// or of the system. Those signals are blocked in the calling thread.
Status RunUsageKeeper(UniqueFd line, UsageKeeperOptions options);

}  // namespace tessera
