#include "server/worker/queue_estimate.h"

#include <algorithm>
#include <optional>

namespace tessera {
namespace {

// One measurement changes a belief by no more than this: the rest of the time may have been the program's.
constexpr double kChangeMax = 4;

}  // namespace

DurationEstimate& QueueEstimate::durations() {
  if (durations_ == nullptr) durations_ = std::make_unique<DurationEstimate>();
  return *durations_;
}

bool QueueEstimate::MayAdd(uint64_t kind, int64_t budget_ns, int64_t now_ns) {
  if (empty() || now_ns - added_ns_ >= kPatienceNs) return true;
  if (has_unknown_) return false;
  const std::optional<int64_t> believed_ns = durations().Find(kind);
  if (!believed_ns) return false;
  const int64_t queued_ns = QueuedNs(now_ns);
  return queued_ns == 0 || queued_ns + *believed_ns <= budget_ns;
}

void QueueEstimate::Add(uint64_t kind, int64_t now_ns) {
  if (empty()) began_ns_ = now_ns;
  added_ns_ = now_ns;
  const auto same = std::ranges::find(work_, kind, &Work::kind);
  if (same != work_.end()) {
    ++same->count;
    queued_until_ns_ = std::max(queued_until_ns_, now_ns) + std::max<int64_t>(same->believed_ns, 0);
    return;
  }
  const int64_t believed_ns = durations().Find(kind).value_or(-1);
  has_unknown_ = has_unknown_ || believed_ns < 0;
  queued_until_ns_ = std::max(queued_until_ns_, now_ns) + std::max<int64_t>(believed_ns, 0);
  too_many_kinds_ = too_many_kinds_ || work_.size() == kKindsMax;
  if (work_.size() < kKindsMax) work_.push_back({kind, 1, believed_ns});
}

void QueueEstimate::Drained(int64_t now_ns) {
  if (empty()) return;
  if (!too_many_kinds_) Learn(std::max<int64_t>(now_ns - began_ns_, 0));
  Reset();
}

void QueueEstimate::Learn(int64_t took_ns) {
  int64_t known_ns = 0;
  int64_t unknown_count = 0;
  for (const Work& work : work_) {
    if (work.believed_ns < 0) {
      unknown_count += work.count;
    } else {
      known_ns += work.believed_ns * work.count;
    }
  }
  if (unknown_count > 0) {
    const int64_t each_ns = std::max<int64_t>(took_ns - known_ns, 0) / unknown_count;
    for (const Work& work : work_) {
      if (work.believed_ns < 0) durations().Learn(work.kind, each_ns);
    }
    return;
  }
  const double factor = static_cast<double>(took_ns) / static_cast<double>(std::max<int64_t>(known_ns, 1));
  for (const Work& work : work_) {
    const double believed_ns = static_cast<double>(std::max<int64_t>(work.believed_ns, 1));
    durations().Learn(work.kind, static_cast<int64_t>(believed_ns * std::clamp(factor, 1 / kChangeMax, kChangeMax)));
  }
}

void QueueEstimate::Reset() {
  work_.clear();
  too_many_kinds_ = false;
  has_unknown_ = false;
  queued_until_ns_ = 0;
}

}  // namespace tessera
