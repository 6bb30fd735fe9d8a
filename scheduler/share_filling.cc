#include "scheduler/share_filling.h"

#include <algorithm>

#include "protocol/base/check.h"

namespace tessera {

double FillShares(std::span<const ShareBounds> bounds, double total, std::span<double> shares) {
  CHECK(bounds.size() == shares.size());
  // The sum of clamp(level) rises in straight pieces with the level: Newton's steps, kept between the ends of what is known.
  double low = 0, high = 0, caps = 0;
  for (const ShareBounds& each : bounds) {
    high = std::max(high, each.cap);
    caps += each.cap;
  }
  if (caps <= total) low = high;
  double level = bounds.empty() || caps <= total ? high : std::min(high, total / static_cast<double>(bounds.size()));
  for (int step = 0; step < 64; ++step) {
    double sum = 0;
    int rising = 0;
    for (const ShareBounds& each : bounds) {
      sum += std::clamp(level, each.floor, each.cap);
      if (level >= each.floor && level < each.cap) ++rising;
    }
    const double missing = total - sum;
    if (missing <= 1e-12 && missing >= -1e-12) break;
    (missing > 0 ? low : high) = level;
    if (high - low < 1e-12) break;
    const double next = rising > 0 ? level + missing / rising : (low + high) / 2;
    level = next > low && next < high ? next : (low + high) / 2;
  }
  for (size_t i = 0; i < bounds.size(); ++i) shares[i] = std::clamp(level, bounds[i].floor, bounds[i].cap);
  return level;
}

}  // namespace tessera
