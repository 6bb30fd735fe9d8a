// Keeps the log short when something happens again and again. Pure: the caller tells the time. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Counts lines that are repeated soon, instead of writing them.
class LineRepeats {
 public:
  // How long a line is only counted. After that it is written again, with the count.
  static constexpr uint64_t kPauseNs = 10'000'000'000;
  // How many lines are remembered: the last ones that were written.
  static constexpr size_t kLinesMax = 8;

  struct Line {
    int level;
    std::string text;
  };
  // The lines to write when this line is logged: the line itself with its count, or nothing. If an older line is forgotten for
  // it, that line's count comes first.
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

// Allows one line a second, whatever it says.
class OncePerSecond {
 public:
  // Whether a line may be written now. `left_out`: how many were refused since the last one.
  bool Take(uint64_t now_ns, uint64_t* left_out);

 private:
  bool said_ = false;
  uint64_t said_ns_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace tessera
