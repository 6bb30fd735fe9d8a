// Counts what a session holds of each GPU's memory, and enforces how much it may hold.
//
//   const CUresult result = Charged(ledger, device, MemoryKind::kAllocations, bytes, [&] { return driver.cuMemCreate(...); });
//   ...
//   ledger.Give(device, MemoryKind::kAllocations, bytes);   // after the driver has it back
//
// A vGPU with a limit divides it among its sessions. Each session has a budget, which the broker writes into the session's gate
// page (server/gate/gate_page.h). A session alone in its vGPU gets the whole limit with its first allocation, and asks nobody
// from then on. Memory is counted before the driver is asked, so the session never holds more than the budget.
//
// The broker takes back what a session does not use. It lowers the budget, then reads what is held, and raises the budget to that
// if need be. The ledger works in the opposite order: it raises what is held, and then reads the budget. Both sides are
// sequentially consistent, so one of the two sees the other.
//
// Memory is also counted by kind, for those who watch. A kind is raised after the sum of all that is held, and lowered before it.
// So the kinds never add up to more than the sum, and they add up to it while no call takes or gives. No decision depends on
// them.
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
  // How long a call waits for the broker where a session needs a part of the limit that others of its vGPU had.
  static constexpr uint64_t kAskWaitNs = 2'000'000'000;

  // `pages` outlive it; without them nothing is limited. `stop` ends a wait for the broker.
  MemoryLedger(const DriverTable& driver, const GatePages& pages, StopPredicate stop);
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Counts `bytes` more as held. False: the session may not hold them, and nothing has changed. May wait for the broker.
  bool Take(CUdevice device, MemoryKind kind, uint64_t bytes) EXCLUDES(ask_mutex_);
  // Counts `bytes` as no longer held: the driver has them back.
  void Give(CUdevice device, MemoryKind kind, uint64_t bytes);
  // Call this before a context is made. If the session began without room for a context, this counts what its first one takes.
  // That stays until the session ends. Further contexts that live beside another are counted as long as they do, by what one took
  // when the server started. False: the vGPU has no room; a later try may find some. May wait for the broker, as Take().
  bool TakeContext(CUdevice device) EXCLUDES(ask_mutex_);
  // The context was not made after all, or the driver has it back.
  void GiveContext(CUdevice device) EXCLUDES(ask_mutex_);
  // Counts `bytes` that are held already and were found by measuring, whatever the limit.
  void Add(CUdevice device, MemoryKind kind, uint64_t bytes);

  // Tells the audit (server/daemon/readings/memory_audit.h) what the driver has beside all that: one context more, or code.
  void CountContext(CUdevice device);
  void CountCode(CUdevice device, uint64_t bytes);

  bool limited(CUdevice device) const { return LimitBytes(device) != 0; }
  bool any_limit() const;
  // Returns the limit of the vGPU; 0: it has none.
  uint64_t LimitBytes(CUdevice device) const;
  uint64_t HeldBytes(CUdevice device) const;
  uint64_t HeldBytes(CUdevice device, MemoryKind kind) const;
  // Returns what the vGPU may hold beyond what all its sessions hold; UINT64_MAX without a limit. May wait for the broker, as
  // Take().
  uint64_t LeftBytes(CUdevice device) EXCLUDES(ask_mutex_);

 private:
  // One device: its row of the pages.
  struct Lane {
    const GatePage::Row* gate = nullptr;  // null: no page knows it
    ReportPage::Row* report = nullptr;
    const std::atomic<uint64_t>* context_bytes = nullptr;  // GatePage's
    const std::atomic<uint64_t>* further_bytes = nullptr;  // GatePage's
    // Under ask_mutex_:
    bool has_context = false;   // its first context was counted
    uint32_t contexts = 0;      // that live
    uint64_t held_further = 0;  // bytes that are counted of all but one of these
  };
  const Lane* LaneOf(CUdevice device) const;
  static bool TryTake(const Lane& lane, MemoryKind kind, uint64_t bytes);
  static std::atomic<uint64_t>& OfKind(const Lane& lane, MemoryKind kind) {
    return lane.report->memory_by_kind[static_cast<size_t>(kind)];
  }
  // Asks the broker for a budget of `bytes` more than now. False: no answer came.
  bool Ask(const Lane& lane, uint64_t bytes) EXCLUDES(ask_mutex_);

  const GatePages pages_;
  const StopPredicate stop_;
  std::vector<Lane> lanes_;  // by device number
  Mutex ask_mutex_;          // one question at a time
};

// Returns the result of `allocate`, which takes `bytes` of `device` if it succeeds. CUDA_ERROR_OUT_OF_MEMORY: the session may not
// hold them, and `allocate` was not called; or the driver has not so much.
template <typename Allocate>
CUresult Charged(MemoryLedger& ledger, CUdevice device, MemoryKind kind, uint64_t bytes, const Allocate& allocate) {
  if (!ledger.Take(device, kind, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate();
  if (result != CUDA_SUCCESS) ledger.Give(device, kind, bytes);
  return result;
}

}  // namespace tessera
