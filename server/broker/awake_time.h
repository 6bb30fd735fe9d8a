// When the broker waits without sleeping: shortly before and after a GPU is expected to pass from one vGPU to another, since a
// thread of a virtual machine takes 40 to 80 us to wake, and the GPU does nothing meanwhile. No more than kShare of a core, and
// not at all where there are few of them. Pure; times in nanoseconds of one clock. One thread.
#pragma once

#include <cstdint>

namespace tessera {

class AwakeTime {
 public:
  static constexpr int64_t kBeforeNs = 60'000;
  static constexpr int64_t kAfterNs = 150'000;
  static constexpr int64_t kShare = 10;              // of what passes, one part in so many
  static constexpr int64_t kSavedMaxNs = 1'000'000;  // what was not used before
  static constexpr uint32_t kCoresMin = 5;

  // Of a process that may use so many cores.
  explicit AwakeTime(uint32_t cores) : is_worth_it_(cores >= kCoresMin) {}

  // Something is expected then (INT64_MAX: nothing). It is worth to be awake from BeginNs() to EndNs(), which are INT64_MAX and 0
  // where it is not.
  void Expect(int64_t at_ns, int64_t now_ns);
  int64_t BeginNs() const { return begin_ns_; }
  int64_t EndNs() const { return end_ns_; }
  // So much time was spent awake for nothing.
  void Spent(int64_t spent_ns) { saved_ns_ -= spent_ns; }

 private:
  const bool is_worth_it_;
  int64_t begin_ns_ = INT64_MAX;
  int64_t end_ns_ = 0;
  int64_t saved_ns_ = kSavedMaxNs;
  int64_t saved_at_ns_ = 0;
};

}  // namespace tessera
