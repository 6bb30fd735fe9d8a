// Divides a GPU among those that want it now. Pure; any thread.
#pragma once

#include <span>

namespace tessera {

// What one gets at least and at most: 0 <= floor <= cap.
struct ShareBounds {
  double floor = 0;
  double cap = 1;
};

// shares[i] = clamp(level, floor, cap) with the one level at which they add up to `total`: everybody has its floor, and the rest
// goes to whoever has least (max-min fair). If the floors add up to more than `total`, everybody has its floor. If the caps add
// up to less, everybody has its cap. Returns the level.
double FillShares(std::span<const ShareBounds> bounds, double total, std::span<double> shares);

}  // namespace tessera
