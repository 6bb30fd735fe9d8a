// Sets of time spans, in ns of one clock: union, difference and overlap. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// From `begin` until before `end`, which is not before `begin`.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t length() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

// A merged list: sorted, and no span touches another.
using Spans = std::vector<Span>;

// Merges `spans`, which may have any order.
Spans Merged(std::vector<Span> spans);
// The time that `spans` cover and `others` do not. Both have to be merged.
Spans Without(const Spans& spans, const Spans& others);
// The length of the part of `span` that `spans` cover.
int64_t Covered(const Spans& spans, const Span& span);
int64_t Length(const Spans& spans);

}  // namespace tessera
