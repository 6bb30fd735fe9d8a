// The two pages of one worker, as the broker has them mapped: it writes one and reads the other (server/gate). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/base/status.h"
#include "scheduler/static_slots.h"
#include "server/gate/gate_page.h"
#include "server/gate/report_page.h"

namespace tessera {

class WorkerPages {
 public:
  // Maps them; the descriptors are not needed afterwards. kProtocolViolation for files that are too short, or that their other
  // users could shrink.
  static Result<WorkerPages> Map(int gate_fd, int report_fd);
  // Pages of somebody else's, who keeps them.
  WorkerPages(GatePage& gate, const ReportPage& report) : gate_(&gate), report_(&report) {}

  // What the worker may do with a GPU. Wakes who waits there, if it is something new.
  void Tell(size_t row, const GateWord& word);
  // What it may do without a broker.
  void TellSlot(size_t row, const StaticSlot& slot);
  void SayAlive(int64_t now_ns) { gate_->alive_ns.store(static_cast<uint64_t>(now_ns), std::memory_order_release); }
  const ReportPage& report() const { return *report_; }
  // Its words of memory are written as vgpu_memory.h says.
  GatePage::Row& memory(size_t row) { return gate_->rows[row]; }
  const GatePage::Row& memory(size_t row) const { return gate_->rows[row]; }
  // What its first context there is to take of the limit (GatePage).
  std::atomic<uint64_t>& context_bytes(size_t row) { return gate_->context_bytes[row]; }
  const std::atomic<uint64_t>& context_bytes(size_t row) const { return gate_->context_bytes[row]; }
  // Whoever waits for a word of the gate page.
  void WakeAll();

 private:
  WorkerPages(std::shared_ptr<GatePage> gate, std::shared_ptr<const ReportPage> report)
      : gate_(gate.get()), report_(report.get()), owned_gate_(std::move(gate)), owned_report_(std::move(report)) {}

  GatePage* gate_;
  const ReportPage* report_;
  std::shared_ptr<GatePage> owned_gate_;
  std::shared_ptr<const ReportPage> owned_report_;
};

}  // namespace tessera
