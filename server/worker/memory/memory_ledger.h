// What a session holds of each GPU's memory, and how much it may.
//
//   const CUresult result = Charged(ledger, device, MemoryKind::kAllocations, bytes, [&] { return driver.cuMemCreate(...); });
//   ...
//   ledger.Give(device, MemoryKind::kAllocations, bytes);   // after the driver has it back
//
// A vGPU with a limit divides it among its sessions: each has a budget, which the broker writes into the session's gate page
// (server/gate/gate_page.h). A session alone in its vGPU gets all of it with its first allocation, and asks nobody from then on.
// Memory is counted before the driver is asked, so no moment finds more held than the budget.
//
// The broker takes back what a session does not use: it lowers the budget, then reads what is held, and raises the budget to that
// if need be. Here what is held is raised first, and then the budget read. Both are sequentially consistent: one of the two sees
// the other.
//
// Beside what is held in all it is counted by kind, for those who watch: after it was taken, and before it is given back. So the
// kinds add up to no more than the sum, and to the sum while no call takes or gives. Nothing is decided by them.
//
// Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/memory_kind.h"
#include "server/worker/gate/gate.h"

namespace tessera {

class MemoryLedger {
 public:
  // How long the broker is waited for where a session needs a part that others of its vGPU had.
  static constexpr uint64_t kAskWaitNs = 2'000'000'000;

  // `pages` outlive it; without them nothing is limited. `stop` ends a wait for the broker.
  MemoryLedger(const DriverTable& driver, const GatePages& pages, StopPredicate stop);
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Counts `bytes` more as held. False when the session may not hold them; nothing has changed then. May wait for the broker.
  bool Take(CUdevice device, MemoryKind kind, uint64_t bytes) EXCLUDES(ask_mutex_);
  // They are not held any more: the driver has them back.
  void Give(CUdevice device, MemoryKind kind, uint64_t bytes);
  // Before a context is made: counts what the session's first one takes, where it began without room for one. False: its vGPU has
  // none; a later try may find some. What was counted stays until the session ends, however many contexts it makes.
  bool TakeContext(CUdevice device) EXCLUDES(ask_mutex_);
  // What is held already, and was found to be so by measuring: counted, whatever the limit.
  void Add(CUdevice device, MemoryKind kind, uint64_t bytes);

  bool limited(CUdevice device) const { return LimitBytes(device) != 0; }
  bool any_limit() const;
  // Of the vGPU; 0: none.
  uint64_t LimitBytes(CUdevice device) const;
  uint64_t HeldBytes(CUdevice device) const;
  uint64_t HeldBytes(CUdevice device, MemoryKind kind) const;
  // What the vGPU may hold beyond what all its sessions do; UINT64_MAX without a limit.
  uint64_t LeftBytes(CUdevice device) EXCLUDES(ask_mutex_);

 private:
  // One device: its row of the pages.
  struct Lane {
    const GatePage::Row* gate = nullptr;  // null: no page knows it
    ReportPage::Row* report = nullptr;
    const std::atomic<uint64_t>* context_bytes = nullptr;  // GatePage's
    bool has_context = false;                              // it was counted; under ask_mutex_
  };
  const Lane* LaneOf(CUdevice device) const;
  static bool TryTake(const Lane& lane, MemoryKind kind, uint64_t bytes);
  static std::atomic<uint64_t>& OfKind(const Lane& lane, MemoryKind kind) {
    return lane.report->memory_by_kind[static_cast<size_t>(kind)];
  }
  // Asks the broker for a budget of `bytes` more than now. False without an answer.
  bool Ask(const Lane& lane, uint64_t bytes) EXCLUDES(ask_mutex_);

  const GatePages pages_;
  const StopPredicate stop_;
  std::vector<Lane> lanes_;  // by device number
  Mutex ask_mutex_;          // one question at a time
};

// The result of `allocate`, which takes `bytes` of `device` where it succeeds. CUDA_ERROR_OUT_OF_MEMORY, and it was not called,
// where the session may not hold them.
template <typename Allocate>
CUresult Charged(MemoryLedger& ledger, CUdevice device, MemoryKind kind, uint64_t bytes, const Allocate& allocate) {
  if (!ledger.Take(device, kind, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate();
  if (result != CUDA_SUCCESS) ledger.Give(device, kind, bytes);
  return result;
}

}  // namespace tessera
