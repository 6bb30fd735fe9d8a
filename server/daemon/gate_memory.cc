#include "server/daemon/gate_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/segment.h"
#include "server/gate/report_page.h"

namespace tessera {

Result<GateMemory> GateMemory::Make(std::span<const GpusMessage::Uuid> gpus, std::span<const uint64_t> context_bytes) {
  GateMemory memory;
  Result<UniqueFd> gate = CreateSegmentFile("tessera-gate", kPageBytes);
  if (!gate.ok()) return gate.status();
  memory.gate_ = std::move(*gate);
  Result<UniqueFd> report = CreateSegmentFile("tessera-report", kReportFileBytes);
  if (!report.ok()) return report.status();
  memory.report_ = std::move(*report);
  {
    Result<Mapping> mapping = Mapping::Map(memory.gate_.get(), kPageBytes, 0, MapPlacement::Anywhere());
    if (!mapping.ok()) return mapping.status();
    auto& page = *reinterpret_cast<GatePage*>(mapping->data());
    page.row_count = static_cast<uint32_t>(std::min(gpus.size(), kGateRowsMax));
    for (size_t i = 0; i < page.row_count; ++i) {
      std::memcpy(page.rows[i].uuid, gpus[i].data(), gpus[i].size());
      if (i < context_bytes.size()) page.further_context_bytes[i].store(context_bytes[i], std::memory_order_relaxed);
    }
  }
  const std::string same = "/proc/self/fd/" + std::to_string(memory.gate_.get());
  memory.worker_gate_.reset(open(same.c_str(), O_RDONLY | O_CLOEXEC));
  if (!memory.worker_gate_.valid()) return Status::FromErrno("cannot open a gate page for reading", errno);
  if (fchmod(memory.gate_.get(), 0444) != 0) return Status::FromErrno("cannot close a gate page for writers", errno);
  memory.event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!memory.event_.valid()) return Status::FromErrno("cannot make an eventfd", errno);
  return memory;
}

void GateMemory::SayEnd(GateEnd why) const {
  if (pwrite(gate_.get(), &why, sizeof(why), offsetof(GatePage, caught)) != sizeof(why)) {
    LogError("cannot write into a gate page: errno {}", errno);
  }
}

Status GateMemory::SetMemoryLimit(uint32_t row, uint64_t bytes) const {
  return Set(offsetof(GatePage, rows) + row * sizeof(GatePage::Row) + offsetof(GatePage::Row, memory_limit), bytes);
}

Status GateMemory::SetContextBytes(uint32_t row, uint64_t bytes) const {
  return Set(offsetof(GatePage, context_bytes) + row * sizeof(uint64_t), bytes);
}

AuditedWorker GateMemory::Audited(uint32_t row) const {
  const auto word = [row](int page, size_t rows, size_t row_bytes, size_t at) {
    uint64_t value = 0;
    // The files are longer than that: less is read of none.
    return pread(page, &value, sizeof(value), static_cast<off_t>(rows + row * row_bytes + at)) == sizeof(value) ? value : 0;
  };
  const auto report = [&](size_t at) { return word(report_.get(), offsetof(ReportPage, rows), sizeof(ReportPage::Row), at); };
  const uint64_t engaged_ns = report(offsetof(ReportPage::Row, engaged_ns));
  const uint64_t drained_ns = report(offsetof(ReportPage::Row, drained_ns));
  const bool has_worked = (report(offsetof(ReportPage::Row, did_kernels)) | report(offsetof(ReportPage::Row, did_graphs))) != 0;
  return {.may_have_backlog = has_worked && (engaged_ns == 0 || drained_ns < engaged_ns),
          .is_limited =
              word(gate_.get(), offsetof(GatePage, rows), sizeof(GatePage::Row), offsetof(GatePage::Row, memory_limit)) != 0,
          .contexts = report(offsetof(ReportPage::Row, made_contexts)),
          .code_bytes = report(offsetof(ReportPage::Row, loaded_bytes))};
}

Status GateMemory::Set(size_t at, uint64_t value) const {
  if (pwrite(gate_.get(), &value, sizeof(value), static_cast<off_t>(at)) == sizeof(value)) return Status::Ok();
  return Status::FromErrno("cannot write into a gate page", errno);
}

}  // namespace tessera
