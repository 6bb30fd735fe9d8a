#include "server/worker/gate/gate.h"

#include <algorithm>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "scheduler/static_slots.h"
#include "server/gate/gate_end.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/gate/gate_rows.h"
#include "server/worker/threads/thread_contexts.h"

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
      held_(driver,
            pages.gate != nullptr ? [this](uint64_t now_ns) { ClientAnswered(now_ns); } : std::function<void(uint64_t)>()),
      pages_(pages),
      page_(pages.gate != nullptr ? pages.gate : &kFreePage),
      executed_(pages.report != nullptr ? &pages.report->executed : &own_executed_) {
  if (pages.gate != nullptr && pages.report != nullptr) {
    FindLanes();
  } else {
    own_row_ = std::make_unique<ReportPage::Row>();
    only_row_ = own_row_.get();
  }
}

Gate::~Gate() = default;

void Gate::FindLanes() {
  uint32_t visible = 0;
  for (const int row : GateRowsOf(driver_, *page_)) {
    std::unique_ptr<Lane>& lane = lanes_.emplace_back();
    if (row == kNoRow) continue;
    lane = std::make_unique<Lane>(static_cast<size_t>(row), pages_.report->rows[row], pages_.event_fd);
    visible |= 1u << row;
  }
  if (lanes_.size() == 1 && lanes_[0] != nullptr) only_row_ = &pages_.report->rows[lanes_[0]->row];
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

ReportPage::Row* Gate::RowOfCurrentDevice() {
  const Lane* const lane = LaneOfCurrentDevice();
  return lane == nullptr ? nullptr : &pages_.report->rows[lane->row];
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

Gate::Verdict Gate::Judge(Lane& lane, CUstream stream, uint64_t kind, uint64_t now_ns) {
  const GateWord word = WordOf(lane);
  if (word.mode == GateMode::kFree) return Verdict::kPass;
  const uint64_t open_until_ns = OpenUntilNs(lane, word, now_ns);
  const bool open = now_ns < open_until_ns;
  if (word.mode != GateMode::kArmed && AwaitsClient(stream, open, now_ns)) return Verdict::kAwaitClient;
  if (!open) return Verdict::kAwaitToken;
  const uint64_t budget_ns = std::min(open_until_ns - now_ns, kQueuedMaxNs);
  const uint64_t key = IdleWatch::KeyOf(stream, contexts_.current());
  const bool fits = lane.queue.MayAdd(key, kind, static_cast<int64_t>(budget_ns), static_cast<int64_t>(now_ns));
  return fits ? Verdict::kPass : Verdict::kAwaitRoom;
}

bool Gate::AwaitsClient(CUstream stream, bool open, uint64_t now_ns) {
  const uint64_t since_ns = held_.SinceNs(stream, contexts_.current());
  if (since_ns == 0) return false;
  if (std::exchange(client_since_ns_, since_ns) != since_ns) client_turn_ns_ = since_ns;
  if (open && now_ns < client_turn_ns_ + kClientTurnNs) return false;
  if (now_ns < client_turn_ns_ + kClientTurnsNs) return true;
  if (open) client_turn_ns_ = now_ns;
  return false;
}

bool Gate::MustStop(uint64_t now_ns) {
  if (!stop_ || now_ns - stop_asked_ns_ < kStopGapNs) return false;
  stop_asked_ns_ = now_ns;
  return !stop_().ok();
}

void Gate::Await(CUstream stream, uint64_t kind) {
  Engage();
  Lane* const lane = LaneOfCurrentDevice();
  if (lane == nullptr || WordOf(*lane).mode == GateMode::kFree || idle_.Captures(stream)) return;
  if (stream == nullptr || stream == CU_STREAM_LEGACY) idle_.NoteContext(contexts_.current());
  for (;;) {
    const uint32_t changes = page_->changes.load(std::memory_order_acquire);
    if (held_.HasEnded()) GoOn();
    const uint64_t now_ns = MonotonicNs();
    const Verdict verdict = Judge(*lane, stream, kind, now_ns);
    if (verdict == Verdict::kPass) break;
    if (verdict == Verdict::kAwaitClient) {
      lane->report.WaitEnded(now_ns);
    } else {
      lane->report.WaitBegan(now_ns, verdict == Verdict::kAwaitToken);
    }
    if (MustStop(now_ns)) break;
    if (busy() && AskIdle(now_ns, verdict == Verdict::kAwaitToken)) continue;
    Sleep(*lane, verdict, changes, now_ns);
  }
  // While it waited, the stream was perhaps found to be idle.
  streams_.Touch(stream);
  GoOn();
  const uint64_t now_ns = MonotonicNs();
  if (worked_since_ns_ == 0) worked_since_ns_ = now_ns;
  lane->queue.Add(IdleWatch::KeyOf(stream, contexts_.current()), kind, static_cast<int64_t>(now_ns));
  const int64_t told_ns = lane->queue.ToldNs(static_cast<int64_t>(now_ns)) + lane->queue.TakeUntoldNs();
  lane->report.Passed(now_ns, static_cast<uint64_t>(told_ns));
  lane->report.WaitEnded(now_ns);
}

void Gate::AwaitLaunch(CUstream stream, uint64_t kind) {
  Engage();
  const bool worked = busy() || rests_;
  Await(stream, kind);
  Lane* const lane = LaneOfCurrentDevice();
  if (!worked && busy() && lane != nullptr && lane->report.busy()) launching_ = lane;
}

void Gate::BeginSpan() { std::exchange(launching_, nullptr)->report.BeginsBy(MonotonicNs(), kLaunchNs); }

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
  }
  // What is believed to be queued may have run already, or there is room before all of it has. An end that is seen late is
  // learned as long work, which is looked at late again.
  sleep_ns = std::min(sleep_ns, verdict == Verdict::kAwaitToken && !busy() ? kSleepNs : kAskMaxNs);
  // Its slot begins without a word.
  if (verdict == Verdict::kAwaitToken && BrokerIsSilent(now_ns)) sleep_ns = std::min(sleep_ns, kAskMaxNs);
  // Whoever answers for the client wakes it; one wake-up in a million comes before it sleeps.
  if (verdict == Verdict::kAwaitClient && rests_) sleep_ns = kClientTurnsNs / 10;
  if (held_.HasEnded()) return;
  FutexWait(&page_->changes, changes, sleep_ns);
}

Status Gate::MayGoOn() const {
  switch (page_->caught.load(std::memory_order_relaxed)) {
    case static_cast<uint32_t>(GateEnd::kCaught):
      return Status(StatusCode::kOverran,
                    "its worker used a GPU without reporting it, which this server ends sessions for (tesserad --audit end)");
    case static_cast<uint32_t>(GateEnd::kCaughtMemory):
      return Status(StatusCode::kOverran,
                    "its worker held more of a GPU's memory than it reported, which this server ends sessions for (tesserad "
                    "--audit end)");
    case static_cast<uint32_t>(GateEnd::kDeleted):
      return Status(StatusCode::kUnavailable, "its vGPU was deleted by force (tessera vgpu delete --force)");
    case static_cast<uint32_t>(GateEnd::kAsked):
      return Status(StatusCode::kUnavailable, "its user or an administrator has ended it (tessera sessions end)");
    default: break;
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

}  // namespace tessera
