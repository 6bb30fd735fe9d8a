#include "server/daemon/readings/audit.h"

#include <algorithm>
#include <cmath>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr double kSecondNs = 1e9;
// Of a load: no more than so much from one figure to the next is an even one.
constexpr double kEven = 0.05;
// With less, or so much less than all, of a GPU NVML's samples say the same whatever they are.
constexpr double kSome = 0.05;
// NVML is true where differences have so small a part of the squares that whole samples would give them,
constexpr double kTruePart = 0.04;
// and so large a part of the figures is no average of whole samples.
constexpr double kFinePart = 0.4;
constexpr double kHardlyBusy = 0.01;

uint64_t Ms(double seconds) { return static_cast<uint64_t>(seconds * 1000 + 0.5); }

constexpr double kTiny = 1e-9;  // for what is equal but for rounding

double Square(double value) { return value * value; }

// Whether samples that are all or nothing, seven a second at most, can have this average, in whole per cents.
bool IsOfWholeSamples(long percent) {
  for (long samples = 1; samples <= 7; ++samples) {
    for (long all = 0; all <= samples; ++all) {
      if (percent == 100 * all / samples ||
          percent == std::lround(100.0 * static_cast<double>(all) / static_cast<double>(samples)))
        return true;
    }
  }
  return false;
}

// Of the time that such samples see of a process which has this share of so many seconds.
double CoarseVariance(double share, double seconds) {
  return std::max(share * (1 - share), 0.0) * seconds / Audit::kSamplesPerSecond;
}

// How many samples of so many seconds say something of their own. Of seconds beyond kCorrelated a quarter counts, since a program
// may stay in step; that is hard for one that is hardly busy.
double Samples(double seconds, double share) {
  constexpr double kFirst = Audit::kCorrelated;
  const double each = share <= kHardlyBusy ? Audit::kSamplesPerSecond : Audit::kIndependentPerSecond;
  return each * (seconds <= kFirst ? seconds : kFirst + (seconds - kFirst) / 4);
}

// How much each sample that is all or nothing says against a share of `share` where they have one of `seen` (Hoeffding 1963): n
// of them are that many by chance with a probability of exp(-n x divergence) at most.
double Divergence(double seen, double share) {
  if (seen <= share) return 0;
  if (share <= 0 || seen >= 1) return share <= 0 ? HUGE_VAL : -std::log(share);
  return seen * std::log(seen / share) + (1 - seen) * std::log((1 - seen) / (1 - share));
}

}  // namespace

Audit::Figure Audit::SumOf(const std::deque<Figure>& figures, size_t begin, size_t end) {
  Figure sum;
  for (size_t i = begin; i < end; ++i) {
    sum.passed += figures[i].passed;
    sum.reported += figures[i].reported;
    sum.seen += figures[i].seen;
  }
  return sum;
}

double Audit::SpreadBefore(const std::deque<Figure>& figures, size_t last) {
  double least = figures[last].reported, most = least;
  for (size_t i = last - std::min(last, kLate); i < last; ++i) {
    least = std::min(least, figures[i].reported);
    most = std::max(most, figures[i].reported);
  }
  return most - least;
}

bool Audit::IsSteady(const std::deque<Figure>& figures, size_t first) {
  double squares = 0, coarse_squares = 0;
  for (size_t i = first; i < figures.size(); ++i) {
    const double share = std::min(figures[i].seen / figures[i].passed, 1.0);
    squares += Square(figures[i].more() - figures[i - 1].more());
    coarse_squares += 2 * CoarseVariance(std::clamp(share, kSome, 1 - kSome), figures[i].passed);
  }
  return squares <= kTruePart * coarse_squares;
}

void Audit::Hear(const ReportedMessage& reported, const AskOfWorker& ask) {
  const uint64_t passed_ns = reported.at_ns > at_ns_ ? reported.at_ns - at_ns_ : 0;
  at_ns_ = reported.at_ns;
  tracks_.Hear(reported, [&](const auto& part, const ReportedMessage::Row& row, Track& track) {
    HearRow(row, passed_ns, !track.is_settled && ask(part.first, part.second).may_have_backlog, track);
  });
  std::erase_if(found_sessions_, [&](uint64_t session) { return !tracks_.HasSession(session); });
}

void Audit::HearRow(const ReportedMessage::Row& row, uint64_t passed_ns, bool may_have_backlog, Track& track) {
  const uint64_t watched_ns = row.watched_ns - std::min(row.watched_ns, track.watched_ns);
  const uint64_t busy_ns = row.busy_ns - std::min(row.busy_ns, track.busy_ns);
  // Else it is of another broker, which counts from its start, or of a worker that is new.
  const bool goes_on = !track.is_new && row.watched_ns >= track.watched_ns && row.busy_ns >= track.busy_ns &&
                       passed_ns >= kApartMinNs && watched_ns >= passed_ns / 10 * 9;
  if (!goes_on) {
    if (!track.is_new) LogDebug("audit of time: begins anew");
    track = {};
  }
  track.is_new = false;
  track.watched_ns = row.watched_ns;
  track.busy_ns = row.busy_ns;
  if (!goes_on) return;
  track.known_ns += watched_ns;
  track.is_settled = track.is_settled || !may_have_backlog || track.known_ns >= kBacklogMaxNs;
  track.next.passed = static_cast<double>(passed_ns) / kSecondNs;
  track.next.reported = static_cast<double>(std::min(busy_ns, passed_ns)) / kSecondNs;
}

std::vector<Audit::Finding> Audit::Compare(const ProcessFigures& figures) {
  std::vector<Finding> findings;
  LookForBlindness(figures);
  if (blind_ != nullptr || !figures.told) {
    Skip();
    return findings;
  }
  std::set<uint32_t> devices;
  for (auto& [part, track] : tracks_) {
    const auto [session, device] = part;
    if (track.next.passed == 0) continue;
    const ProcessFigures::One* const one = figures.Find(session, device);
    const bool has_worked = one != nullptr && one->sm_percent != ProcessFigures::kUnknownPercent;
    Figure figure = track.next;
    track.next = {};
    // NVML has told more than 100 of processes that were about to end.
    if (has_worked && one->sm_percent > 100) {
      track.figures.clear();
      continue;
    }
    figure.seen = has_worked ? figure.passed * one->sm_percent / 100 : 0;
    LogDebug("audit of time: session {}, GPU {}: {} of {} ms by NVML, {} ms by its worker", session, device, Ms(figure.seen),
             Ms(figure.passed), Ms(figure.reported));
    // Nor is the first one after that compared: NVML is late.
    if (!track.was_settled) track.figures.clear();
    track.was_settled = track.is_settled;
    if (track.figures.size() == kFiguresMax + kLate) track.figures.pop_front();
    track.figures.push_back(figure);
    devices.insert(device);
    Finding finding{};
    const auto under_reports = [&](size_t count) { return UnderReports(track, count, device, &finding); };
    if (!std::ranges::any_of(std::array<size_t, 6>{kFiguresMin, 4, kCorrelated, 10, 20, kFiguresMax}, under_reports)) continue;
    if (!found_sessions_.insert(session).second) continue;
    finding.session = session;
    finding.device = device;
    if (device < found_.size()) ++found_[device];
    findings.push_back(finding);
  }
  for (const uint32_t device : devices) Learn(device);
  return findings;
}

bool Audit::UnderReports(const Track& track, size_t count, uint32_t device, Finding* finding) const {
  const std::deque<Figure>& figures = track.figures;
  if (figures.size() < count + 1) return false;
  const size_t first = figures.size() - count;
  const Figure sum = SumOf(figures, first, figures.size());
  double reported = 0;
  for (size_t late = 0; late <= std::min(first, kLate); ++late)
    reported = std::max(reported, SumOf(figures, first - late, figures.size() - late).reported);
  const double edges = (SpreadBefore(figures, first) + SpreadBefore(figures, figures.size() - 1)) / 2;
  const double more = sum.seen - reported - (kPart + kRoundingPart) * sum.passed - edges;
  if (more < kTiny) return false;
  *finding = {0, device, sum.passed, 100 * sum.seen / sum.passed, 100 * reported / sum.passed};
  const double share = reported / sum.passed;
  if (Samples(sum.passed, share) * Divergence(share + more / sum.passed, share) >= kEvidence) return true;
  if (count < kCorrelated || !IsTrue(device) || !IsSteady(figures, first)) return false;
  return more > kDeviations * std::sqrt(LearnedVariance(device) * static_cast<double>(count) / kCorrelated);
}

void Audit::Learn(uint32_t device) {
  if (device >= learned_.size()) return;
  const auto works = [](const Track& track) {
    return !track.figures.empty() && track.figures.back().seen >= kSome * track.figures.back().passed;
  };
  size_t working = 0;
  for (const auto& [part, track] : tracks_) working += part.second == device && works(track) ? 1 : 0;
  if (working < 2) return;
  for (const auto& [part, track] : tracks_) {
    const size_t size = track.figures.size();
    if (part.second != device || size < 2 * kCorrelated) continue;
    const Figure now = SumOf(track.figures, size - kCorrelated, size);
    const Figure before = SumOf(track.figures, size - 2 * kCorrelated, size - kCorrelated);
    const double share = (now.seen + before.seen) / (now.passed + before.passed);
    if (share < kSome || share > 1 - kSome || std::abs(now.reported - before.reported) > kEven * now.passed) continue;
    const Figure& last = track.figures.back();
    std::deque<Lesson>& lessons = learned_[device];
    if (lessons.size() == kLearnedMax) lessons.pop_front();
    lessons.push_back({Square(now.more() - before.more()), 2 * CoarseVariance(share, now.passed),
                       !IsOfWholeSamples(std::lround(100 * last.seen / last.passed))});
  }
}

bool Audit::IsTrue(uint32_t device) const {
  if (device >= learned_.size() || learned_[device].size() < kLearnedMin) return false;
  double fine = 0, squares = 0, coarse_squares = 0;
  for (const Lesson& lesson : learned_[device]) {
    fine += lesson.is_fine ? 1 : 0;
    squares += lesson.square;
    coarse_squares += lesson.coarse_square;
  }
  return fine >= kFinePart * static_cast<double>(learned_[device].size()) && squares <= kTruePart * coarse_squares;
}

double Audit::LearnedVariance(uint32_t device) const {
  double squares = 0;
  for (const Lesson& lesson : learned_[device]) squares += lesson.square;
  return squares / static_cast<double>(learned_[device].size());
}

void Audit::Skip() {
  LogDebug("audit of time: begins anew");
  for (auto& [part, track] : tracks_) {
    track.next = {};
    track.figures.clear();
  }
}

void Audit::LookForBlindness(const ProcessFigures& figures) {
  untold_ = figures.told ? 0 : untold_ + 1;
  seen_ = seen_ || std::ranges::any_of(figures.list, [](const ProcessFigures::One& one) {
            return one.sm_percent != ProcessFigures::kUnknownPercent;
          });
  const bool somebody_is_busy = std::ranges::any_of(tracks_, [](const auto& entry) {
    return entry.second.next.passed != 0 && entry.second.next.reported >= 0.9 * entry.second.next.passed;
  });
  if (figures.told && somebody_is_busy && !seen_) ++unseen_;
  blind_ = untold_ >= kBlindAfter             ? "NVML does not tell how much single processes use the GPUs"
           : !seen_ && unseen_ >= kBlindAfter ? "NVML does not know this server's processes"
                                              : nullptr;
}

}  // namespace tessera
