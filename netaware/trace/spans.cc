#include "netaware/trace/spans.h"

#include <algorithm>

namespace tessera {

Spans Merged(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  Spans merged;
  for (const Span& span : spans) {
    if (span.length() <= 0) continue;
    if (merged.empty() || span.begin > merged.back().end) {
      merged.push_back(span);
    } else {
      merged.back().end = std::max(merged.back().end, span.end);
    }
  }
  return merged;
}

Spans Without(const Spans& spans, const Spans& others) {
  Spans left;
  auto other = others.begin();
  for (Span span : spans) {
    while (other != others.end() && other->end <= span.begin) ++other;
    for (auto cut = other; cut != others.end() && cut->begin < span.end; ++cut) {
      if (cut->begin > span.begin) left.push_back({span.begin, cut->begin});
      span.begin = cut->end;
    }
    if (span.length() > 0) left.push_back(span);
  }
  return left;
}

int64_t Covered(const Spans& spans, const Span& span) {
  int64_t covered = 0;
  auto at = std::ranges::upper_bound(spans, span.begin, {}, &Span::end);
  for (; at != spans.end() && at->begin < span.end; ++at)
    covered += std::min(at->end, span.end) - std::max(at->begin, span.begin);
  return covered;
}

int64_t Length(const Spans& spans) {
  int64_t length = 0;
  for (const Span& span : spans) length += span.length();
  return length;
}

}  // namespace tessera
