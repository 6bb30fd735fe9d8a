// Stretches of time, in ns of one clock: what they have in common, and what is left. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// From `begin` to before `end`; not shorter than nothing.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t length() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

// Of a list that is merged: sorted, and none meets another.
using Spans = std::vector<Span>;

// What `spans`, in any order, cover.
Spans Merged(std::vector<Span> spans);
// What `spans` cover and `others` do not. Both are merged.
Spans Without(const Spans& spans, const Spans& others);
// How much of `span` is covered.
int64_t Covered(const Spans& spans, const Span& span);
int64_t Length(const Spans& spans);

}  // namespace tessera
