// Pauses a service's work while it lacks descriptors or memory. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "protocol/base/status.h"

namespace tessera {

// Writes one line to the log when the shortage begins and one when it is over.
//
//   if (!connection.ok()) return shortage_.Begin(connection.status(), MonotonicNs());
class Shortage {
 public:
  // How long the work pauses before it is tried again.
  static constexpr uint64_t kPauseNs = 100'000'000;

  // `what`: the work that pauses, "accepting clients". `advice`: what the user can do.
  Shortage(std::string what, std::string advice) : what_(std::move(what)), advice_(std::move(advice)) {}
  void Begin(const Status& why, uint64_t now_ns);
  // The work was done.
  void End();
  // When to try again, during a pause.
  uint64_t until_ns() const { return until_ns_; }
  bool rests(uint64_t now_ns) const { return now_ns < until_ns_; }

 private:
  const std::string what_;
  const std::string advice_;
  uint64_t until_ns_ = 0;
};

}  // namespace tessera
