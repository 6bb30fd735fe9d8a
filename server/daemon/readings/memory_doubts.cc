#include "server/daemon/readings/memory_doubts.h"

#include <algorithm>

namespace tessera {

void MemoryDoubts::Hear(const ReportedMessage& reported) {
  tracks_.Hear(reported, [](const auto&, const ReportedMessage::Row& row, Track& track) { track.held_bytes = row.held_bytes; });
}

std::vector<SeenMessage::Row> MemoryDoubts::Compare(const ProcessFigures& figures) {
  knows_us_ = knows_us_ || std::ranges::any_of(figures.list, [](const ProcessFigures::One& one) {
                return one.used_bytes != ProcessFigures::kUnknownBytes;
              });
  std::vector<SeenMessage::Row> doubted;
  if (!figures.told || !knows_us_) return doubted;
  for (auto& [part, track] : tracks_) {
    const ProcessFigures::One* const one = figures.Find(part.first, part.second);
    const uint64_t seen = one == nullptr ? 0 : one->used_bytes;
    if (seen == ProcessFigures::kUnknownBytes) continue;
    if (track.held_bytes > seen && track.held_bytes - seen > kMoreBytes) {
      track.wrong = std::min(track.wrong + 1, kWrongMax);
      track.right = 0;
    } else if (++track.right >= kRightMax) {
      track.wrong = 0;
    }
    if (track.wrong == kWrongMax) doubted.push_back({part.first, part.second, seen});
  }
  return doubted;
}

}  // namespace tessera
