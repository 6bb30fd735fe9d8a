#include "server/worker/memory/memory_ledger.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "server/worker/gate/gate_rows.h"

namespace tessera {

MemoryLedger::MemoryLedger(const DriverTable& driver, const GatePages& pages, StopPredicate stop)
    : pages_(pages), stop_(std::move(stop)) {
  if (pages.gate == nullptr || pages.report == nullptr) return;
  for (const int row : GateRowsOf(driver, *pages.gate)) {
    lanes_.push_back(row == kNoRow ? Lane{}
                                   : Lane{&pages.gate->rows[row], &pages.report->rows[row], &pages.gate->context_bytes[row],
                                          &pages.gate->further_context_bytes[row]});
  }
}

const MemoryLedger::Lane* MemoryLedger::LaneOf(CUdevice device) const {
  if (device < 0 || static_cast<size_t>(device) >= lanes_.size()) return nullptr;
  const Lane& lane = lanes_[static_cast<size_t>(device)];
  return lane.gate == nullptr ? nullptr : &lane;
}

bool MemoryLedger::TryTake(const Lane& lane, MemoryKind kind, uint64_t bytes) {
  const uint64_t held = lane.report->memory_held.fetch_add(bytes, std::memory_order_seq_cst) + bytes;
  const bool limited = lane.gate->memory_limit.load(std::memory_order_relaxed) != 0;
  if (!limited || held <= lane.gate->memory_budget.load(std::memory_order_seq_cst)) {
    OfKind(lane, kind).fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  lane.report->memory_held.fetch_sub(bytes, std::memory_order_seq_cst);
  return false;
}

bool MemoryLedger::Take(CUdevice device, MemoryKind kind, uint64_t bytes) {
  const Lane* const lane = LaneOf(device);
  if (lane == nullptr) return true;
  if (bytes > UINT64_MAX / 2) return false;
  if (TryTake(*lane, kind, bytes)) return true;
  // The other sessions of the vGPU could not give that much.
  const uint64_t held = lane->report->memory_held.load(std::memory_order_relaxed);
  if (held + bytes > lane->gate->memory_limit.load(std::memory_order_relaxed)) return false;
  return Ask(*lane, bytes) && TryTake(*lane, kind, bytes);
}

bool MemoryLedger::TakeContext(CUdevice device) {
  if (LaneOf(device) == nullptr) return true;
  Lane& lane = lanes_[static_cast<size_t>(device)];
  uint64_t bytes = 0;
  const auto try_once = [&] {
    MutexLock lock(ask_mutex_);
    const uint64_t first = lane.has_context ? 0 : lane.context_bytes->load(std::memory_order_seq_cst);
    const uint64_t further = lane.contexts == 0 ? 0 : lane.further_bytes->load(std::memory_order_relaxed);
    bytes = first + further;
    if (bytes != 0 && !TryTake(lane, MemoryKind::kContexts, bytes)) return false;
    if (first != 0) lane.has_context = true;
    lane.held_further += further;
    ++lane.contexts;
    return true;
  };
  if (try_once()) return true;
  const uint64_t held = lane.report->memory_held.load(std::memory_order_relaxed);
  if (held + bytes > lane.gate->memory_limit.load(std::memory_order_relaxed)) return false;
  return Ask(lane, bytes) && try_once();
}

void MemoryLedger::GiveContext(CUdevice device) {
  if (LaneOf(device) == nullptr) return;
  Lane& lane = lanes_[static_cast<size_t>(device)];
  MutexLock lock(ask_mutex_);
  if (lane.contexts == 0) return;
  // Whichever goes, one that is left is the one that has its room.
  const uint64_t bytes = lane.contexts == 1 ? 0 : lane.held_further / (lane.contexts - 1);
  --lane.contexts;
  lane.held_further -= bytes;
  if (bytes != 0) Give(device, MemoryKind::kContexts, bytes);
}

void MemoryLedger::Give(CUdevice device, MemoryKind kind, uint64_t bytes) {
  if (const Lane* const lane = LaneOf(device); lane != nullptr) {
    OfKind(*lane, kind).fetch_sub(bytes, std::memory_order_relaxed);
    lane->report->memory_held.fetch_sub(bytes, std::memory_order_seq_cst);
  }
}

void MemoryLedger::Add(CUdevice device, MemoryKind kind, uint64_t bytes) {
  if (const Lane* const lane = LaneOf(device); lane != nullptr) {
    lane->report->memory_held.fetch_add(bytes, std::memory_order_seq_cst);
    OfKind(*lane, kind).fetch_add(bytes, std::memory_order_relaxed);
  }
}

void MemoryLedger::CountContext(CUdevice device) {
  if (const Lane* const lane = LaneOf(device); lane != nullptr)
    lane->report->made_contexts.fetch_add(1, std::memory_order_relaxed);
}

void MemoryLedger::CountCode(CUdevice device, uint64_t bytes) {
  if (const Lane* const lane = LaneOf(device); lane != nullptr) {
    lane->report->loaded_bytes.fetch_add(std::min(bytes, UINT64_MAX / 2), std::memory_order_relaxed);
  }
}

bool MemoryLedger::Ask(const Lane& lane, uint64_t bytes) {
  MutexLock lock(ask_mutex_);
  lane.report->memory_wanted.store(bytes, std::memory_order_relaxed);
  const uint64_t question = lane.report->memory_asks.fetch_add(1, std::memory_order_release) + 1;
  const uint64_t one = 1;
  // If the event's count is full the write fails, but then the broker has been woken already.
  (void)!write(pages_.event_fd, &one, sizeof(one));
  const auto answered = [&] { return lane.gate->memory_answer.load(std::memory_order_acquire) == question; };
  const std::atomic<uint32_t>& changes = pages_.gate->changes;
  const auto sleep = [&](uint64_t timeout_ns) {
    const uint32_t seen = changes.load(std::memory_order_acquire);
    if (!answered()) FutexWait(&changes, seen, timeout_ns);
  };
  const Status status = SleepUntil(answered, sleep, MonotonicNs() + kAskWaitNs, stop_);
  if (status.code() == StatusCode::kTimedOut) {
    LogWarning(
        "memory is refused, since the server's broker has not answered within {} s how much of its vGPU's this session may have",
        kAskWaitNs / 1'000'000'000);
  }
  return status.ok();
}

bool MemoryLedger::any_limit() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.gate != nullptr && lane.gate->memory_limit.load(std::memory_order_relaxed) != 0;
  });
}

uint64_t MemoryLedger::LimitBytes(CUdevice device) const {
  const Lane* const lane = LaneOf(device);
  return lane == nullptr ? 0 : lane->gate->memory_limit.load(std::memory_order_relaxed);
}

uint64_t MemoryLedger::HeldBytes(CUdevice device) const {
  const Lane* const lane = LaneOf(device);
  return lane == nullptr ? 0 : lane->report->memory_held.load(std::memory_order_relaxed);
}

uint64_t MemoryLedger::HeldBytes(CUdevice device, MemoryKind kind) const {
  const Lane* const lane = LaneOf(device);
  return lane == nullptr ? 0 : OfKind(*lane, kind).load(std::memory_order_relaxed);
}

uint64_t MemoryLedger::LeftBytes(CUdevice device) {
  const uint64_t limit = LimitBytes(device);
  if (limit == 0) return UINT64_MAX;
  const Lane& lane = *LaneOf(device);
  // What is known of the other sessions is as old as the broker's last look.
  if (lane.gate->memory_others.load(std::memory_order_relaxed) != 0) Ask(lane, 0);
  const uint64_t held = HeldBytes(device) + lane.gate->memory_others.load(std::memory_order_acquire);
  return limit - std::min(limit, held);
}

}  // namespace tessera
