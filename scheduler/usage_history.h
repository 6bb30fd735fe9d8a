// How much GPU time one vGPU used over the last second and over the last ten, from the spans in which it was busy.
//
// Spans that touch are joined, which loses nothing. Two others are joined when together they are shorter than a grain: 1 ms
// within the last second, 10 ms before. A joined span counts as evenly used, so a window's figure is off by a quarter of the
// grain at most. So there are at most 2 x 1,000 spans of the last second and 2 x 900 of the nine before, of 24 bytes each: 92
// KiB, however short they are. O(1) amortised. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tessera {

inline constexpr int64_t kMillisecondNs = 1'000'000;
inline constexpr int64_t kSecondNs = 1'000 * kMillisecondNs;

enum class Window { kOneSecond, kTenSeconds };
constexpr int64_t LengthNs(Window window) { return window == Window::kOneSecond ? kSecondNs : 10 * kSecondNs; }

// GPU time used between two moments. It is less than their distance when others were busy as well.
struct UsedSpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t used_ns = 0;
};

// Spans in order of time, joined by a grain, and their sum.
class SpanQueue {
 public:
  explicit SpanQueue(int64_t grain_ns) : grain_ns_(grain_ns) {}
  void Push(const UsedSpan& span);
  // Takes out the first span when it has ended by `until_ns`.
  bool PopEnded(int64_t until_ns, UsedSpan* span);
  // What was used since `since_ns`, which lies within the first span or before it.
  int64_t UsedSince(int64_t since_ns) const;
  int64_t total_ns() const { return total_ns_; }
  size_t size() const { return spans_.size(); }

 private:
  int64_t grain_ns_;
  std::deque<UsedSpan> spans_;
  int64_t total_ns_ = 0;
};

class UsageHistory {
 public:
  // `used_ns` of [begin_ns, end_ns) were used. Spans come in order of time and do not overlap.
  void Add(int64_t begin_ns, int64_t end_ns, int64_t used_ns);
  // Forgets what has left the windows by `now_ns`. Time does not go back.
  void Advance(int64_t now_ns);
  // As of the last Advance().
  int64_t UsedNs(Window window) const;
  size_t spans() const { return recent_.size() + older_.size(); }

 private:
  SpanQueue recent_{kMillisecondNs};      // of the last second
  SpanQueue older_{10 * kMillisecondNs};  // of the nine before
  int64_t now_ns_ = 0;
};

}  // namespace tessera
