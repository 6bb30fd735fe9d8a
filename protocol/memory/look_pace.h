// How often to look at memory that somebody else writes without saying so: soon at first, when most kernels are done, then ever
// more rarely, and never so often that looking takes more than a tenth of the time. Not thread-safe: of the thread that looks.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

class LookPace {
 public:
  // Until the next look.
  std::chrono::microseconds pause() const { return pause_; }
  // A look took so long.
  void Looked(std::chrono::steady_clock::duration took) {
    const auto least = std::chrono::duration_cast<std::chrono::microseconds>(took) * kPausePerLook;
    pause_ = std::max(std::min(pause_ * 5 / 4, kLongest), least);
  }
  // There was nothing to look at: the next look is a first one.
  void Rest() { pause_ = kFirst; }

 private:
  static constexpr std::chrono::microseconds kFirst{300};
  // What somebody who waits for a word waits for at most, unless looking takes long.
  static constexpr std::chrono::microseconds kLongest{5000};
  static constexpr int kPausePerLook = 10;

  std::chrono::microseconds pause_ = kFirst;
};

}  // namespace tessera
