#include "server/daemon/readings/memory_audit.h"

#include <algorithm>

#include "protocol/base/log.h"

namespace tessera {
namespace {

// Of what others say: too large is as large as can be.
uint64_t Sum(uint64_t one, uint64_t other) { return one > UINT64_MAX - other ? UINT64_MAX : one + other; }

}  // namespace

void MemoryAudit::Hear(const ReportedMessage& reported) {
  for (auto& [part, track] : tracks_) track.heard = false;
  for (const ReportedMessage::Row& row : reported.rows) {
    Track& track = tracks_[{row.session, row.device}];
    track.heard = true;
    if (track.held.size() == kReportedMax) track.held.erase(track.held.begin());
    track.held.push_back(row.held_bytes);
  }
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.heard; });
}

std::vector<MemoryAudit::Finding> MemoryAudit::Compare(const ProcessFigures& figures) {
  std::vector<Finding> findings;
  for (auto& [part, track] : tracks_) {
    const auto [session, device] = part;
    const auto figure = std::ranges::find_if(
        figures.list, [&](const ProcessFigures::One& one) { return one.session == session && one.device == device; });
    const uint64_t held = *std::ranges::max_element(track.held);
    const uint64_t context = device < context_bytes_.size() ? context_bytes_[device] : 0;
    const bool known = figure != figures.list.end() && figure->used_bytes != ProcessFigures::kUnknownBytes;
    if (known) {
      LogDebug("audit of memory: session {}, GPU {}: {} MiB by NVML, {} MiB by its worker, {} MiB beside it", session, device,
               figure->used_bytes >> 20, held >> 20, context >> 20);
    }
    if (!known || figure->used_bytes <= Sum(Sum(held, context), kMoreBytes)) {
      track.in_a_row = 0;
      continue;
    }
    if (++track.in_a_row < kSecondsInARow || !found_parts_.insert(part).second) continue;
    if (found_parts_.size() > kFoundMax) found_parts_.erase(found_parts_.begin());
    ++found_[device];
    findings.push_back({session, device, figure->used_bytes, held, context});
  }
  return findings;
}

}  // namespace tessera
