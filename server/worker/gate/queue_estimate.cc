#include "server/worker/gate/queue_estimate.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera {
namespace {

// One measurement lowers a belief to no less than this part: several streams may have worked at once.
constexpr double kFallMax = 0.25;

}  // namespace

DurationEstimate& QueueEstimate::durations() {
  if (durations_ == nullptr) durations_ = std::make_unique<DurationEstimate>();
  return *durations_;
}

QueueEstimate::Batch* QueueEstimate::Find(uint64_t stream) {
  const auto found = batches_.find(stream);
  return found == batches_.end() ? nullptr : &found->second;
}

bool QueueEstimate::HoldsUnknown(int64_t now_ns) const {
  if (unknown_ == 0) return false;
  int64_t added_ns = 0;
  for (const auto& [stream, batch] : batches_) {
    if (batch.unknown > 0) added_ns = std::max(added_ns, batch.added_ns);
  }
  return now_ns - added_ns < kPatienceNs << std::min(unknown_ - 1, kUnknownDoublingsMax);
}

bool QueueEstimate::MayAdd(uint64_t stream, uint64_t kind, int64_t budget_ns, int64_t now_ns) {
  Batch* const batch = Find(stream);
  if (batch != nullptr && now_ns - batch->due_ns >= kStandsNs) batch->stands_until_ns = now_ns + kStandsTurnNs;
  if (batch != nullptr && now_ns < batch->stands_until_ns) budget_ns = std::max(budget_ns, kStandsBudgetNs);
  const bool patient = batch != nullptr && now_ns - batch->added_ns < batch->PatienceNs();
  if (patient && batch->unknown > 0) return false;
  if (batch == nullptr && batches_.size() == kStreamsMax && now_ns - uncounted_added_ns_ < kPatienceNs) return false;
  const bool known = durations().Find(kind).has_value();
  if (!known && HoldsUnknown(now_ns)) return false;
  const int64_t queued_ns = QueuedNs(now_ns);
  if (queued_ns == 0 && !patient) return true;
  if (!known) return !patient && queued_ns <= budget_ns;
  return queued_ns < budget_ns || (batch != nullptr && !patient);
}

void QueueEstimate::Add(uint64_t stream, uint64_t kind, int64_t now_ns) {
  const int64_t believed_ns = durations().Find(kind).value_or(-1);
  const int64_t told_ns = durations().IsSure(kind) ? believed_ns : std::min(believed_ns, kUnsureMaxNs);
  queued_until_ns_ = std::max(queued_until_ns_, now_ns) + std::max<int64_t>(believed_ns, 0);
  told_until_ns_ = std::max(told_until_ns_, now_ns) + std::max<int64_t>(told_ns, 0);
  Batch* batch = Find(stream);
  if (batch == nullptr) {
    if (batches_.size() == kStreamsMax) {
      uncounted_added_ns_ = now_ns;
      return;
    }
    batch = &batches_.emplace(stream, Batch{now_ns, now_ns, {}}).first->second;
  }
  batch->added_ns = now_ns;
  batch->due_ns = std::max(batch->due_ns, now_ns) + std::max<int64_t>(believed_ns, 0);
  const auto same = std::ranges::find(batch->work, kind, &Work::kind);
  if (same != batch->work.end()) {
    ++same->count;
  } else if (batch->work.size() < kKindsMax) {
    batch->work.push_back({kind, 1, believed_ns});
  } else {
    batch->teaches_nothing = true;
  }
  if (believed_ns < 0 && batch->unknown++ == 0) ++unknown_;
}

void QueueEstimate::Drained(uint64_t stream, int64_t now_ns) {
  const auto found = batches_.find(stream);
  if (found == batches_.end()) return;
  const Batch& batch = found->second;
  if (batch.unknown > 0) untold_ns_ += std::clamp<int64_t>(now_ns - batch.due_ns, 0, kUnsureMaxNs);
  if (!batch.teaches_nothing) Learn(batch, std::max<int64_t>(now_ns - batch.began_ns, 0));
  if (batch.unknown > 0) --unknown_;
  batches_.erase(found);
  if (batches_.empty()) queued_until_ns_ = told_until_ns_ = 0;
}

void QueueEstimate::WaitsForClient(uint64_t stream, int64_t enqueued_ns, int64_t began_ns) {
  Batch* const batch = Find(stream);
  if (batch == nullptr) return;
  if (batch->added_ns <= enqueued_ns) return Drained(stream, began_ns);
  batch->teaches_nothing = true;
}

void QueueEstimate::Learn(const Batch& batch, int64_t took_ns) {
  int64_t known_ns = 0;
  int64_t unknown_count = 0;
  for (const Work& work : batch.work) {
    if (work.believed_ns < 0) {
      unknown_count += work.count;
    } else {
      known_ns += work.believed_ns * work.count;
    }
  }
  if (unknown_count > 0) {
    const int64_t each_ns = std::max<int64_t>(took_ns - known_ns, 0) / unknown_count;
    for (const Work& work : batch.work) {
      if (work.believed_ns < 0) durations().Learn(work.kind, each_ns);
    }
    return;
  }
  const double factor = static_cast<double>(took_ns) / static_cast<double>(std::max<int64_t>(known_ns, 1));
  for (const Work& work : batch.work) {
    const double believed_ns = static_cast<double>(std::max<int64_t>(work.believed_ns, 1));
    durations().Learn(work.kind, static_cast<int64_t>(believed_ns * std::max(factor, kFallMax)));
  }
}

void QueueEstimate::Reset() {
  batches_.clear();
  unknown_ = 0;
  untold_ns_ = 0;
  queued_until_ns_ = told_until_ns_ = 0;
}

}  // namespace tessera
