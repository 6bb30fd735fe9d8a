// What the driver has done, and what the broker hears of it.
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "server/worker/gate/gate.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {

bool Gate::busy() const { return worked_since_ns_ != 0; }

uint64_t Gate::AskGapNs(uint64_t now_ns) const {
  return std::clamp((now_ns - worked_since_ns_) / kAskShare, kAskMinNs, kAskMaxNs);
}

bool Gate::AskIdle(uint64_t now_ns, bool wakes) {
  if (now_ns - asked_ns_ < kAskMinNs / 2) return false;
  asked_ns_ = now_ns;
  const HeldStreams::View waits = held_.Look();
  const IdleWatch::Found found = idle_.Look(waits, [&](uint64_t stream) {
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      if (lane != nullptr) lane->queue.Drained(stream, static_cast<int64_t>(now_ns));
    }
  });
  for (const HeldStreams::Open& open : waits.open) {
    const uint64_t stream = IdleWatch::KeyOf(open.wait.stream, open.wait.context);
    const auto enqueued_ns = static_cast<int64_t>(open.wait.enqueued_ns), began_ns = static_cast<int64_t>(open.began_ns);
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      if (lane != nullptr) lane->queue.WaitsForClient(stream, enqueued_ns, began_ns);
    }
  }
  const auto tell = [&] {
    // The driver had done everything when it was asked. A long question is billed but for kLookNs: on a busy machine it may have
    // taken long to ask, and the work has ended meanwhile.
    const uint64_t idle_ns = std::max(now_ns, MonotonicNs() - kLookNs);
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      if (lane == nullptr) continue;
      if (found == IdleWatch::Found::kIdle) lane->queue.Reset();
      lane->will_go_on = lane->report.busy();
      lane->report.Drained(idle_ns, wakes);
    }
  };
  switch (found) {
    case IdleWatch::Found::kWork: return false;
    case IdleWatch::Found::kWaits: {
      if (!held_.Rest(waits, tell)) return false;
      rests_ = true;
      break;
    }
    case IdleWatch::Found::kIdle: tell(); break;
  }
  worked_since_ns_ = 0;
  return true;
}

void Gate::SawEnd() {
  if (!closed() || saw_end_.exchange(true, std::memory_order_relaxed)) return;
  if (wake_) wake_();
}

void Gate::GoOn() {
  if (!std::exchange(rests_, false)) return;
  worked_since_ns_ = held_.GoOn();
}

void Gate::ClientAnswered(uint64_t now_ns) {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr && lane->will_go_on) lane->report.WentOn(now_ns);
  }
  // The executor waits at the gate or for a record, if it waits.
  FutexWakeAll(&page_->changes);
  if (wake_) wake_();
}

bool Gate::DestroysWhenDone(CUstream stream, CUcontext context) {
  if (!closed()) return false;
  Engage();  // Disengage() destroys what is left
  idle_.DestroyWhenDone(stream, context);
  return true;
}

uint64_t Gate::Rest() {
  if (saw_end_.load(std::memory_order_relaxed)) {
    saw_end_.store(false, std::memory_order_relaxed);
    asked_ns_ = 0;
  }
  if (!closed()) {
    if (engaged_) Disengage();
    return kNoDeadline;
  }
  Engage();
  if (held_.HasEnded()) GoOn();
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
  const uint64_t engaged_ns = worked_since_ns_;
  const bool idle = AskIdle(engaged_ns, false);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr) lane->report.Engaged(engaged_ns, idle);
  }
}

void Gate::Disengage() {
  engaged_ = false;
  idle_.DestroyKept();
  GoOn();
  worked_since_ns_ = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr) continue;
    lane->queue.Reset();
    lane->report.Reset();
  }
}

}  // namespace tessera
