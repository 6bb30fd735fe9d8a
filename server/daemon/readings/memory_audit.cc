#include "server/daemon/readings/memory_audit.h"

#include <algorithm>

#include "protocol/base/log.h"

namespace tessera {
namespace {

// Of what others say: too large is as large as can be.
uint64_t Sum(uint64_t one, uint64_t other) { return one > UINT64_MAX - other ? UINT64_MAX : one + other; }
uint64_t Product(uint64_t one, uint64_t other) {
  uint64_t product = 0;
  return __builtin_mul_overflow(one, other, &product) ? UINT64_MAX : product;
}

}  // namespace

void MemoryAudit::Hear(const ReportedMessage& reported, const AskOfWorker& ask) {
  tracks_.Hear(reported, [&](const auto& part, const ReportedMessage::Row& row, Track& track) {
    if (track.held.size() == kReportedMax) track.held.erase(track.held.begin());
    track.held.push_back(row.held_bytes);
    const AuditedWorker worker = ask(part.first, part.second);
    const uint64_t context_bytes = ContextBytes(part.second);
    track.beside_bytes =
        Sum(context_bytes, std::min(Product(worker.code_bytes, std::max<uint64_t>(worker.contexts, 1)), kBesideMax));
    track.is_limited = worker.is_limited;
  });
}

std::vector<MemoryAudit::Finding> MemoryAudit::Compare(const ProcessFigures& figures) {
  std::vector<Finding> findings;
  for (auto& [part, track] : tracks_) {
    const auto [session, device] = part;
    const ProcessFigures::One* const figure = figures.Find(session, device);
    const uint64_t held = *std::ranges::max_element(track.held);
    const uint64_t more = track.is_limited && ContextBytes(device) != 0 ? kMoreBytes : kUnlimitedMoreBytes;
    const bool is_known = figure != nullptr && figure->used_bytes != ProcessFigures::kUnknownBytes;
    if (is_known) {
      LogDebug("audit of memory: session {}, GPU {}: {} MiB by NVML, {} MiB by its worker, {} MiB beside it", session, device,
               figure->used_bytes >> 20, held >> 20, track.beside_bytes >> 20);
    }
    if (!is_known || figure->used_bytes <= Sum(Sum(held, track.beside_bytes), more)) {
      track.in_a_row = 0;
      continue;
    }
    if (++track.in_a_row < kSecondsInARow || !found_parts_.insert(part).second) continue;
    if (found_parts_.size() > kFoundMax) found_parts_.erase(found_parts_.begin());
    if (device < found_.size()) ++found_[device];
    findings.push_back({session, device, figure->used_bytes, held, track.beside_bytes, more, more == kMoreBytes});
  }
  return findings;
}

}  // namespace tessera
