#include "server/daemon/readings/memory_doubts.h"

#include <algorithm>

namespace tessera {

void MemoryDoubts::Hear(const ReportedMessage& reported) {
  for (auto& [part, track] : tracks_) track.heard = false;
  for (const ReportedMessage::Row& row : reported.rows) {
    Track& track = tracks_[{row.session, row.device}];
    track.heard = true;
    track.held_bytes = row.held_bytes;
  }
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.heard; });
}

std::vector<SeenMessage::Row> MemoryDoubts::Compare(const ProcessFigures& figures) {
  std::map<Part, uint64_t> used;
  for (const ProcessFigures::One& one : figures.list) used[{one.session, one.device}] = one.used_bytes;
  knows_us_ =
      knows_us_ || std::ranges::any_of(used, [](const auto& entry) { return entry.second != ProcessFigures::kUnknownBytes; });
  std::vector<SeenMessage::Row> doubted;
  if (!figures.told || !knows_us_) return doubted;
  for (auto& [part, track] : tracks_) {
    const auto figure = used.find(part);
    const uint64_t seen = figure == used.end() ? 0 : figure->second;
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
