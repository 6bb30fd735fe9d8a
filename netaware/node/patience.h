// The delay before a connection is retried, and the choice of failures to log: a reason is logged once, until another one
// follows it.
//
// Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera {

class Patience {
 public:
  static constexpr int64_t kFirstMs = 100;
  static constexpr int64_t kLongestMs = 5'000;

  // Called after a failure. Returns the delay before the next try.
  int64_t NextMs() { return std::exchange(next_ms_, std::min(2 * next_ms_, kLongestMs)); }
  // Called after a success.
  void Reset() {
    next_ms_ = kFirstMs;
    said_.clear();
  }
  bool IsNews(const std::string& why) { return std::exchange(said_, why) != why; }

 private:
  int64_t next_ms_ = kFirstMs;
  std::string said_{};
};

}  // namespace tessera
