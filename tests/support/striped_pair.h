// Two ends of a link of several connections, in one process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "protocol/link/striped/striped_link.h"

namespace tessera {

// `make(i)` makes the two ends of connection i.
template <typename Make>
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeStripedPair(size_t connections, const Make& make) {
  std::vector<std::unique_ptr<Link>> ends[2];
  for (size_t i = 0; i < connections; ++i) {
    auto [near, far] = make(i);
    ends[0].push_back(std::move(near));
    ends[1].push_back(std::move(far));
  }
  return {MakeStripedLink(std::move(ends[0])).value(), MakeStripedLink(std::move(ends[1])).value()};
}

}  // namespace tessera
