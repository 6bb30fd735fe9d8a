#include "protocol/base/log_bounds.h"

#include <algorithm>

#include <fmt/core.h>

namespace tessera {

LineRepeats::Line LineRepeats::WithCount(const Known& known) {
  if (known.left_out == 0) return known.line;
  return {known.line.level, fmt::format("{} ({} times more since the last such line)", known.line.text, known.left_out)};
}

std::vector<LineRepeats::Line> LineRepeats::Take(int level, std::string_view text, uint64_t now_ns) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.line.text == text; });
  if (found != known_.end()) {
    if (now_ns - found->written_ns < kPauseNs) {
      ++found->left_out;
      return {};
    }
    Line line = WithCount(*found);
    known_.erase(found);
    known_.push_back({{level, std::string(text)}, now_ns, 0});
    return {std::move(line)};
  }
  std::vector<Line> lines;
  if (known_.size() == kLinesMax) {
    if (known_.front().left_out > 0) lines.push_back(WithCount(known_.front()));
    known_.pop_front();
  }
  known_.push_back({{level, std::string(text)}, now_ns, 0});
  lines.push_back(known_.back().line);
  return lines;
}

bool OncePerSecond::Take(uint64_t now_ns, uint64_t* left_out) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  if (said_ && now_ns - said_ns_ < kSecondNs) {
    ++left_out_;
    return false;
  }
  *left_out = left_out_;
  said_ = true;
  said_ns_ = now_ns;
  left_out_ = 0;
  return true;
}

}  // namespace tessera
