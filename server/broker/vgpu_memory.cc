#include "server/broker/vgpu_memory.h"

#include <algorithm>

namespace tessera {
namespace {

// A budget of no more than what it holds now; what it has then, which is more where the limit was lowered below that.
uint64_t LowerToHeld(WorkerPages& session, size_t row) {
  std::atomic<uint64_t>& budget = session.memory(row).memory_budget;
  const uint64_t before = budget.load(std::memory_order_relaxed);
  uint64_t now = std::min(before, MemoryHeld(session, row));
  budget.store(now, std::memory_order_seq_cst);
  if (const uint64_t held = MemoryHeld(session, row); held > now) {
    now = std::min(before, held);
    budget.store(now, std::memory_order_seq_cst);
  }
  return std::max(now, MemoryHeld(session, row));
}

void Answered(WorkerPages& asks, size_t row, uint64_t question) {
  asks.memory(row).memory_answer.store(question, std::memory_order_release);
  asks.WakeAll();
}

uint64_t Minus(uint64_t left, uint64_t right) { return left - std::min(left, right); }

}  // namespace

uint64_t MemoryHeld(const WorkerPages& session, size_t row) {
  const uint64_t limit = session.memory(row).memory_limit.load(std::memory_order_relaxed);
  const uint64_t held = session.report().rows[row].memory_held.load(std::memory_order_seq_cst);
  return limit == 0 ? held : std::min(held, limit);
}

bool AsksForMemory(const WorkerPages& session, size_t row) {
  return session.report().rows[row].memory_asks.load(std::memory_order_acquire) !=
         session.memory(row).memory_answer.load(std::memory_order_relaxed);
}

uint64_t ContextsBytes(size_t sessions, uint32_t processes, uint64_t context_bytes) {
  return sessions <= processes ? 0 : (sessions - processes) * context_bytes;
}

void AnswerMemory(std::span<WorkerPages* const> sessions, WorkerPages& asks, size_t row, uint64_t contexts_bytes) {
  const ReportPage::Row& report = asks.report().rows[row];
  const uint64_t question = report.memory_asks.load(std::memory_order_acquire);
  const uint64_t limit = asks.memory(row).memory_limit.load(std::memory_order_relaxed);
  const uint64_t wanted = std::min(report.memory_wanted.load(std::memory_order_relaxed), limit);
  uint64_t kept = contexts_bytes;
  for (WorkerPages* each : sessions) {
    if (each != &asks) kept += LowerToHeld(*each, row);
  }
  const uint64_t left = Minus(limit, kept);
  const uint64_t needed = std::min(left, MemoryHeld(asks, row) + wanted);
  const uint64_t share = (left - needed) / sessions.size();
  for (WorkerPages* each : sessions) {
    std::atomic<uint64_t>& budget = each->memory(row).memory_budget;
    if (each != &asks) budget.store(budget.load(std::memory_order_relaxed) + share, std::memory_order_seq_cst);
  }
  asks.memory(row).memory_budget.store(left - share * (sessions.size() - 1), std::memory_order_seq_cst);
  TellMemoryOfOthers(sessions, row, contexts_bytes);
  Answered(asks, row, question);
}

void RefuseMemory(WorkerPages& asks, size_t row) {
  Answered(asks, row, asks.report().rows[row].memory_asks.load(std::memory_order_acquire));
}

void ChangeMemoryLimit(std::span<WorkerPages* const> sessions, size_t row, uint64_t limit_bytes) {
  for (WorkerPages* each : sessions) {
    GatePage::Row& gate = each->memory(row);
    // Without a limit there was no budget.
    if (gate.memory_limit.load(std::memory_order_relaxed) == 0) gate.memory_budget.store(UINT64_MAX, std::memory_order_relaxed);
    LowerToHeld(*each, row);
    gate.memory_limit.store(limit_bytes, std::memory_order_release);
  }
}

void JoinMemory(std::span<WorkerPages* const> sessions, WorkerPages& joined, size_t row, uint64_t limit_bytes,
                uint64_t contexts_bytes) {
  const bool is_known = joined.memory(row).memory_limit.load(std::memory_order_relaxed) == limit_bytes;
  uint64_t budgets = contexts_bytes;
  for (const WorkerPages* each : sessions) {
    const uint64_t budget = each->memory(row).memory_budget.load(std::memory_order_relaxed);
    budgets = budgets > UINT64_MAX - budget ? UINT64_MAX : budgets + budget;
  }
  if (!is_known || budgets > limit_bytes) ChangeMemoryLimit(sessions, row, limit_bytes);
}

void TellMemoryOfOthers(std::span<WorkerPages* const> sessions, size_t row, uint64_t contexts_bytes) {
  uint64_t held = contexts_bytes;
  for (const WorkerPages* each : sessions) held += MemoryHeld(*each, row);
  for (WorkerPages* each : sessions) {
    each->memory(row).memory_others.store(Minus(held, MemoryHeld(*each, row)), std::memory_order_release);
  }
}

}  // namespace tessera
