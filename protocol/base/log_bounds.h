// What keeps the log short when something happens again and again. Pure code over the time it is told; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace tessera
