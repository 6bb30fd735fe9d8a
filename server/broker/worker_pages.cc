#include "server/broker/worker_pages.h"

#include <errno.h>
#include <sys/mman.h>

#include "protocol/channel/segment.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

template <typename Page>
Result<std::shared_ptr<Page>> MapPage(int fd, uint64_t bytes, int protection) {
  RETURN_IF_ERROR(CheckSegmentFile(fd, bytes));
  void* const at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Status::FromErrno("cannot map a worker's page", errno);
  return std::shared_ptr<Page>(static_cast<Page*>(at),
                               [bytes](const Page* page) { munmap(const_cast<void*>(static_cast<const void*>(page)), bytes); });
}

}  // namespace

Result<WorkerPages> WorkerPages::Map(int gate_fd, int report_fd) {
  Result<std::shared_ptr<GatePage>> gate = MapPage<GatePage>(gate_fd, kPageBytes, PROT_READ | PROT_WRITE);
  if (!gate.ok()) return gate.status();
  Result<std::shared_ptr<const ReportPage>> report = MapPage<const ReportPage>(report_fd, kReportFileBytes, PROT_READ);
  if (!report.ok()) return report.status();
  return WorkerPages(std::move(gate).value(), std::move(report).value());
}

void WorkerPages::Tell(size_t row, const GateWord& word) {
  const uint64_t packed = word.Pack();
  const uint32_t bit = uint32_t{1} << row;
  const uint32_t closed = gate_->closed_rows.load(std::memory_order_relaxed);
  const uint32_t closed_after = word.mode == GateMode::kFree ? closed & ~bit : closed | bit;
  if (gate_->rows[row].gate.load(std::memory_order_relaxed) == packed && closed == closed_after) return;
  gate_->rows[row].gate.store(packed, std::memory_order_release);
  gate_->closed_rows.store(closed_after, std::memory_order_release);
  WakeAll();
}

void WorkerPages::WakeAll() {
  gate_->changes.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(&gate_->changes);
}

void WorkerPages::TellSlot(size_t row, const StaticSlot& slot) {
  gate_->rows[row].slot_begin_ns.store(static_cast<uint64_t>(slot.begin_ns), std::memory_order_relaxed);
  gate_->rows[row].slot_length_ns.store(static_cast<uint64_t>(slot.length_ns), std::memory_order_release);
}

}  // namespace tessera
