#include "scheduler/usage_history.h"

#include <algorithm>

#include "protocol/base/check.h"

namespace tessera {
namespace {

bool Whole(const UsedSpan& span) { return span.used_ns == span.end_ns - span.begin_ns; }

// Of the part of a span before `until_ns`, as if it were evenly used.
int64_t UsedBefore(const UsedSpan& span, int64_t until_ns) {
  if (until_ns <= span.begin_ns) return 0;
  if (until_ns >= span.end_ns) return span.used_ns;
  if (Whole(span)) return until_ns - span.begin_ns;
  const double part = static_cast<double>(until_ns - span.begin_ns) / static_cast<double>(span.end_ns - span.begin_ns);
  return static_cast<int64_t>(part * static_cast<double>(span.used_ns));
}

}  // namespace

void SpanQueue::Push(const UsedSpan& span) {
  total_ns_ += span.used_ns;
  if (!spans_.empty()) {
    UsedSpan& last = spans_.back();
    const bool touch = span.begin_ns == last.end_ns && Whole(span) && Whole(last);
    if (touch || span.end_ns - last.begin_ns <= grain_ns_) {
      last.end_ns = span.end_ns;
      last.used_ns += span.used_ns;
      return;
    }
  }
  spans_.push_back(span);
}

bool SpanQueue::PopEnded(int64_t until_ns, UsedSpan* span) {
  if (spans_.empty() || spans_.front().end_ns > until_ns) return false;
  *span = spans_.front();
  total_ns_ -= span->used_ns;
  spans_.pop_front();
  return true;
}

int64_t SpanQueue::UsedSince(int64_t since_ns) const {
  return spans_.empty() ? 0 : total_ns_ - UsedBefore(spans_.front(), since_ns);
}

void UsageHistory::Add(int64_t begin_ns, int64_t end_ns, int64_t used_ns) {
  CHECK(begin_ns <= end_ns && used_ns >= 0 && used_ns <= end_ns - begin_ns);
  if (used_ns > 0) recent_.Push({begin_ns, end_ns, used_ns});
}

void UsageHistory::Advance(int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  UsedSpan span;
  while (recent_.PopEnded(now_ns_ - LengthNs(Window::kOneSecond), &span)) older_.Push(span);
  while (older_.PopEnded(now_ns_ - LengthNs(Window::kTenSeconds), &span)) {
  }
}

int64_t UsageHistory::UsedNs(Window window) const {
  const int64_t since_ns = now_ns_ - LengthNs(window);
  if (window == Window::kOneSecond) return recent_.UsedSince(since_ns);
  // The oldest span of all may be one of the last second: one that has lasted ten.
  return older_.size() == 0 ? recent_.UsedSince(since_ns) : older_.UsedSince(since_ns) + recent_.total_ns();
}

}  // namespace tessera
