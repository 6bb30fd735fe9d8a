#include "server/worker/gate.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "scheduler/static_slots.h"
#include "server/worker/busy_streams.h"
#include "server/worker/thread_contexts.h"

namespace tessera {
namespace {

constexpr GatePage kFreePage{};
// A wait for a token looks after the session this often.
constexpr uint64_t kSleepNs = kWaitSliceNs;

}  // namespace

Gate::Gate(const DriverTable& driver, ThreadContexts& contexts, BusyStreams& streams, const GatePages& pages)
    : driver_(driver),
      contexts_(contexts),
      streams_(streams),
      idle_(driver, contexts, streams),
      pages_(pages),
      page_(pages.gate != nullptr ? pages.gate : &kFreePage),
      executed_(pages.report != nullptr ? &pages.report->executed : &own_executed_) {
  if (pages.gate != nullptr && pages.report != nullptr) FindLanes();
}

Gate::~Gate() = default;

void Gate::FindLanes() {
  int count = 0;
  if (driver_.cuDeviceGetCount(&count) != CUDA_SUCCESS) return;
  // A driver before 11.4 has no second form, as the server's snapshot does not.
  const auto get_uuid = driver_.cuDeviceGetUuid_v2 != nullptr ? driver_.cuDeviceGetUuid_v2 : driver_.cuDeviceGetUuid;
  uint32_t visible = 0;
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<Lane>& lane = lanes_.emplace_back();
    CUdevice device = 0;
    CUuuid uuid{};
    if (driver_.cuDeviceGet(&device, i) != CUDA_SUCCESS || get_uuid(&uuid, device) != CUDA_SUCCESS) continue;
    for (uint32_t row = 0; row < std::min<uint32_t>(page_->row_count, kGateRowsMax); ++row) {
      if (std::memcmp(page_->rows[row].uuid, uuid.bytes, sizeof(uuid.bytes)) != 0) continue;
      lane = std::make_unique<Lane>(row, pages_.report->rows[row], pages_.event_fd);
      visible |= 1u << row;
    }
  }
  pages_.report->visible_rows.store(visible, std::memory_order_release);
  // Nobody knows of the session's GPUs before.
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr) return lane->report.Wake();
  }
}

Gate::Lane* Gate::LaneOfCurrentDevice() {
  CUdevice device = 0;
  if (driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  return device >= 0 && static_cast<size_t>(device) < lanes_.size() ? lanes_[static_cast<size_t>(device)].get() : nullptr;
}

GateWord Gate::WordOf(const Lane& lane) const { return GateWord::Of(page_->rows[lane.row].gate.load(std::memory_order_acquire)); }

bool Gate::BrokerIsSilent(uint64_t now_ns) const {
  const uint64_t alive_ns = page_->alive_ns.load(std::memory_order_relaxed);
  return now_ns > alive_ns && now_ns - alive_ns >= kBrokerSilentNs;
}

uint64_t Gate::OpenUntilNs(const Lane& lane, const GateWord& word, uint64_t now_ns) const {
  if (word.mode == GateMode::kArmed) return UINT64_MAX;
  if (!BrokerIsSilent(now_ns)) return word.open_until_ns;
  const GatePage::Row& row = page_->rows[lane.row];
  const StaticSlot slot{static_cast<int64_t>(row.slot_begin_ns.load(std::memory_order_relaxed)),
                        static_cast<int64_t>(row.slot_length_ns.load(std::memory_order_relaxed))};
  return static_cast<uint64_t>(slot.OpenUntilNs(static_cast<int64_t>(now_ns)));
}

Gate::Verdict Gate::Judge(Lane& lane, uint64_t stream, uint64_t kind, uint64_t now_ns) {
  const GateWord word = WordOf(lane);
  if (word.mode == GateMode::kFree) return Verdict::kPass;
  const uint64_t open_until_ns = OpenUntilNs(lane, word, now_ns);
  if (now_ns >= open_until_ns) return Verdict::kAwaitToken;
  const uint64_t budget_ns = std::min(open_until_ns - now_ns, kQueuedMaxNs);
  const bool fits = lane.queue.MayAdd(stream, kind, static_cast<int64_t>(budget_ns), static_cast<int64_t>(now_ns));
  return fits ? Verdict::kPass : Verdict::kAwaitRoom;
}

void Gate::Await(CUstream stream, uint64_t kind) {
  Engage();
  Lane* const lane = LaneOfCurrentDevice();
  if (lane == nullptr || WordOf(*lane).mode == GateMode::kFree || idle_.Captures(stream)) return;
  if (stream == nullptr || stream == CU_STREAM_LEGACY) idle_.NoteContext(contexts_.current());
  const uint64_t key = IdleWatch::KeyOf(stream, contexts_.current());
  for (;;) {
    const uint32_t changes = page_->changes.load(std::memory_order_acquire);
    const uint64_t now_ns = MonotonicNs();
    const Verdict verdict = Judge(*lane, key, kind, now_ns);
    if (verdict == Verdict::kPass) break;
    lane->report.WaitBegan(now_ns, verdict == Verdict::kAwaitToken);
    if (stop_ && !stop_().ok()) break;
    if (busy() && AskIdle(now_ns, verdict == Verdict::kAwaitToken)) continue;
    Sleep(*lane, verdict, changes, now_ns);
  }
  // While it waited, the stream was perhaps found to be idle.
  streams_.Touch(stream);
  const uint64_t now_ns = MonotonicNs();
  if (worked_since_ns_ == 0) worked_since_ns_ = now_ns;
  lane->queue.Add(key, kind, static_cast<int64_t>(now_ns));
  lane->report.Passed(now_ns, static_cast<uint64_t>(lane->queue.QueuedNs(static_cast<int64_t>(now_ns))));
  lane->report.WaitEnded(now_ns);
}

void Gate::Sleep(Lane& lane, Verdict verdict, uint32_t changes, uint64_t now_ns) {
  const auto changed = [&] { return page_->changes.load(std::memory_order_acquire) != changes; };
  if (verdict == Verdict::kAwaitToken && WordOf(lane).next && spin_.Spin(changed)) return;
  uint64_t sleep_ns = kSleepNs;
  if (busy()) {
    // The GPU has nothing to do from the end of this work until that is seen: somebody may have the next token, and what waits
    // here may have room then.
    const auto queued_ns = static_cast<uint64_t>(lane.queue.QueuedNs(static_cast<int64_t>(now_ns)));
    sleep_ns = queued_ns > 2 * kAskMaxNs ? queued_ns - kAskMaxNs : kAskMinNs;
    const auto due = [&] { return changed() || MonotonicNs() >= now_ns + kAskMinNs / 2; };
    if (sleep_ns == kAskMinNs && AdaptiveSpin::LongNsMax() > AdaptiveSpin::kNsMax && end_spin_.Spin(due)) return;
    // What is believed to be queued may have run already, or there is room before all of it has.
    sleep_ns = std::min(sleep_ns, verdict == Verdict::kAwaitRoom ? kAskMaxNs : kSleepNs);
  }
  // Its slot begins without a word.
  if (verdict == Verdict::kAwaitToken && BrokerIsSilent(now_ns)) sleep_ns = std::min(sleep_ns, kAskMaxNs);
  FutexWait(&page_->changes, changes, sleep_ns);
}

bool Gate::busy() const { return worked_since_ns_ != 0; }

uint64_t Gate::AskGapNs(uint64_t now_ns) const {
  return std::clamp((now_ns - worked_since_ns_) / kAskShare, kAskMinNs, kAskMaxNs);
}

bool Gate::AskIdle(uint64_t now_ns, bool wakes) {
  if (now_ns - asked_ns_ < kAskMinNs / 2) return false;
  asked_ns_ = now_ns;
  const bool idle = idle_.Idle([&](uint64_t stream) {
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      if (lane != nullptr) lane->queue.Drained(stream, static_cast<int64_t>(now_ns));
    }
  });
  if (!idle) return false;
  worked_since_ns_ = 0;
  // It may have taken long to ask, on a busy machine, and the work has ended meanwhile.
  const uint64_t idle_ns = MonotonicNs();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr) continue;
    lane->queue.Reset();
    lane->report.Drained(idle_ns, wakes);
  }
  return true;
}

Status Gate::MayGoOn() const {
  if (page_->caught.load(std::memory_order_relaxed) != 0) {
    return Status(StatusCode::kOverran,
                  "its worker used a GPU without reporting it, which this server ends sessions for (tesserad --audit end)");
  }
  if (!closed()) return Status::Ok();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr || WordOf(*lane).mode != GateMode::kEnded) continue;
    return Status(
        StatusCode::kOverran,
        "it used a GPU for longer than its vGPU may while others waited for it; the vGPU's file says overrun = \"end\"");
  }
  return Status::Ok();
}

uint64_t Gate::Rest() {
  if (!closed()) {
    if (engaged_) Disengage();
    return kNoDeadline;
  }
  Engage();
  const uint64_t now_ns = MonotonicNs();
  if (busy() && !AskIdle(now_ns, false)) return now_ns + AskGapNs(now_ns);
  uint64_t again_ns = kNoDeadline;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr || lane->report.wake_at_ns() == 0) continue;
    if (now_ns >= lane->report.wake_at_ns()) {
      lane->report.Wake();
    } else {
      again_ns = std::min(again_ns, lane->report.wake_at_ns());
    }
  }
  return again_ns;
}

void Gate::Engage() {
  if (engaged_) return;
  engaged_ = true;
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // 1 µs: the default of 50 µs is longer than many a wait here
  // What went in before is not known, and counts until the driver has done it.
  worked_since_ns_ = MonotonicNs();
  idle_.NoteContext(contexts_.current());
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr && WordOf(*lane).mode != GateMode::kFree) lane->report.BusyBegan(worked_since_ns_);
  }
}

void Gate::Disengage() {
  engaged_ = false;
  worked_since_ns_ = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr) continue;
    lane->queue.Reset();
    lane->report.Reset();
  }
}

}  // namespace tessera
