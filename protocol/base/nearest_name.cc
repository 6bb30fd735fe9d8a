#include "protocol/base/nearest_name.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

constexpr size_t kBytesMax = 64;

size_t Distance(std::string_view from, std::string_view to) {
  std::array<size_t, kBytesMax + 1> row{};  // from what is looked at of `from` to each prefix of `to`
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t changed = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t best = std::min({changed + (from[i] == to[j] ? 0 : 1), row[j] + 1, row[j + 1] + 1});
      changed = std::exchange(row[j + 1], best);
    }
  }
  return row[to.size()];
}

}  // namespace

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& names) {
  const auto order = [&](std::string_view one) { return Distance(name.substr(0, kBytesMax), one.substr(0, kBytesMax)); };
  const auto best = std::ranges::min_element(names, {}, order);
  return best == names.end() ? std::string_view() : *best;
}

}  // namespace tessera
