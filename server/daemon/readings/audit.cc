#include "server/daemon/readings/audit.h"

#include <algorithm>

#include "protocol/base/log.h"

namespace tessera {

void Audit::Hear(const ReportedMessage& reported) {
  const uint64_t passed_ns = reported.at_ns > at_ns_ ? reported.at_ns - at_ns_ : 0;
  at_ns_ = reported.at_ns;
  for (auto& [part, track] : tracks_) track.heard = false;
  for (const ReportedMessage::Row& row : reported.rows) HearRow(row, passed_ns);
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.heard; });
  std::erase_if(found_sessions_, [&](uint64_t session) {
    return std::ranges::none_of(tracks_, [&](const auto& entry) { return entry.first.first == session; });
  });
}

void Audit::HearRow(const ReportedMessage::Row& row, uint64_t passed_ns) {
  Track& track = tracks_[{row.session, row.device}];
  const Track before = track;
  track = {};
  track.watched_ns = row.watched_ns;
  track.busy_ns = row.busy_ns;
  track.heard = true;
  // Of another broker, which counts from its start, or of a worker that is new.
  if (row.watched_ns < before.watched_ns || row.busy_ns < before.busy_ns || passed_ns < kApartMinNs) return;
  const uint64_t watched_ns = row.watched_ns - before.watched_ns;
  if (watched_ns < passed_ns / 10 * 9) return;
  track.passed_ns = passed_ns;
  track.last_busy_ns = row.busy_ns - before.busy_ns;
  track.settled_ns = before.settled_ns + watched_ns;
  track.percents = before.percents;
  if (track.percents.size() == kReportedMax) track.percents.erase(track.percents.begin());
  const uint64_t busy_ns = std::min(row.busy_ns - before.busy_ns, watched_ns);
  track.percents.push_back(static_cast<uint32_t>((busy_ns * 100 + watched_ns - 1) / watched_ns));
  track.in_a_row = before.in_a_row;
}

std::vector<Audit::Finding> Audit::Compare(const ProcessFigures& figures) {
  std::vector<Finding> findings;
  LookForBlindness(figures);
  if (blind_ != nullptr) return findings;
  for (auto& [part, track] : tracks_) {
    const auto [session, device] = part;
    const auto figure = std::ranges::find_if(
        figures.list, [&](const ProcessFigures::One& one) { return one.session == session && one.device == device; });
    // NVML has told more than 100 of processes that were about to end.
    const bool comparable = figure != figures.list.end() && figure->sm_percent <= 100 && track.settled_ns >= kSettleNs;
    const uint32_t reported = track.percents.empty() ? 100 : *std::ranges::max_element(track.percents);
    if (figure != figures.list.end() && figure->sm_percent <= 100) {
      LogDebug("audit of time: session {}, GPU {}: {} of {} ms by NVML, {} ms by its worker", session, device,
               track.passed_ns * figure->sm_percent / 100 / 1'000'000, track.passed_ns / 1'000'000,
               track.last_busy_ns / 1'000'000);
    }
    if (!comparable || figure->sm_percent <= reported + kPointsMax) {
      track.in_a_row = 0;
      continue;
    }
    if (++track.in_a_row < kSecondsInARow || !found_sessions_.insert(session).second) continue;
    ++found_[device];
    findings.push_back({session, device, figure->sm_percent, reported});
  }
  return findings;
}

void Audit::LookForBlindness(const ProcessFigures& figures) {
  untold_ = figures.told ? 0 : untold_ + 1;
  seen_ = seen_ || std::ranges::any_of(figures.list, [](const ProcessFigures::One& one) {
            return one.sm_percent != ProcessFigures::kUnknownPercent;
          });
  const bool somebody_is_busy = std::ranges::any_of(
      tracks_, [](const auto& entry) { return !entry.second.percents.empty() && entry.second.percents.back() >= 90; });
  if (figures.told && somebody_is_busy && !seen_) ++unseen_;
  blind_ = untold_ >= kBlindAfter             ? "NVML does not tell how much single processes use the GPUs"
           : !seen_ && unseen_ >= kBlindAfter ? "NVML does not know this server's processes"
                                              : nullptr;
}

}  // namespace tessera
