// What a service says and does while it lacks descriptors or memory. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "protocol/base/status.h"

namespace tessera {

// Work that rests while the process lacks descriptors or memory for it: one line when that begins, one when it is over.
//
//   if (!connection.ok()) return shortage_.Begin(connection.status(), MonotonicNs());
class Shortage {
 public:
  // How long it rests until it is tried again.
  static constexpr uint64_t kPauseNs = 100'000'000;

  // `what` rests, "accepting clients"; `advice` is what to do about it.
  Shortage(std::string what, std::string advice) : what_(std::move(what)), advice_(std::move(advice)) {}
  void Begin(const Status& why, uint64_t now_ns);
  // It went well.
  void End();
  // When it is to be tried again, while it rests.
  uint64_t until_ns() const { return until_ns_; }
  bool rests(uint64_t now_ns) const { return now_ns < until_ns_; }

 private:
  const std::string what_;
  const std::string advice_;
  uint64_t until_ns_ = 0;
};

}  // namespace tessera
