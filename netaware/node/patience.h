// How long a line waits before it connects again, and what of its failures is to be logged: each reason once, until it is
// another.
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

  // It failed: how long to wait.
  int64_t NextMs() { return std::exchange(next_ms_, std::min(2 * next_ms_, kLongestMs)); }
  // It went well.
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
