// Says how often to look at memory that somebody else writes without notice. Looks come soon at first, when most kernels are
// done, then more and more rarely. They never take more than a tenth of the time. Not thread-safe: belongs to the thread that
// looks.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

class LookPace {
 public:
  // How long to pause before the next look.
  std::chrono::microseconds pause() const { return pause_; }
  // Reports how long a look took.
  void Looked(std::chrono::steady_clock::duration took) {
    const auto least = std::chrono::duration_cast<std::chrono::microseconds>(took) * kPausePerLook;
    pause_ = std::max(std::min(pause_ * 5 / 4, kLongest), least);
  }
  // Reports that there was nothing to look at: the next look counts as the first.
  void Rest() { pause_ = kFirst; }

 private:
  static constexpr std::chrono::microseconds kFirst{300};
  // The longest delay for somebody who waits for a word, unless looks take long.
  static constexpr std::chrono::microseconds kLongest{5000};
  static constexpr int kPausePerLook = 10;

  std::chrono::microseconds pause_ = kFirst;
};

}  // namespace tessera
