// What keeps the log short when something happens again and again. Pure code over the time it is told, but for Shortage; one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Lines that are said again soon are counted instead of written.
class LineRepeats {
 public:
  // How long a line is counted until it is written again, with the count.
  static constexpr uint64_t kPauseNs = 10'000'000'000;
  // Lines that are known, the last ones that were written.
  static constexpr size_t kLinesMax = 8;

  struct Line {
    int level;
    std::string text;
  };
  // What is to be written now that this line is said: it, with how often it was left out before, or nothing. Before it, how often
  // the one was left out that is forgotten for it.
  std::vector<Line> Take(int level, std::string_view text, uint64_t now_ns);

 private:
  struct Known {
    Line line;
    uint64_t written_ns;
    uint64_t left_out;
  };
  static Line WithCount(const Known& known);

  std::deque<Known> known_;  // in the order in which they were written
};

// What is said once a second at most, however different each time.
class OncePerSecond {
 public:
  // Whether it may be said now; `left_out`: how often it might not since it was the last time.
  bool Take(uint64_t now_ns, uint64_t* left_out);

 private:
  bool said_ = false;
  uint64_t said_ns_ = 0;
  uint64_t left_out_ = 0;
};

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
