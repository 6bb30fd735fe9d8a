#include "netaware/placer/place.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "netaware/placer/filter.h"

namespace tessera {
namespace {

// A GPU that fits, and what would be left of it.
struct Fitting {
  uint32_t gpu;
  uint64_t memory_bytes;
  GpuAmount left;

  auto Order() const { return std::tuple(left.share, left.memory_bytes, gpu); }
};
struct Candidate {
  std::string_view server;
  std::vector<Fitting> gpus;  // the best first

  // Of its `count` best: how much would be left.
  auto Order(size_t count) const {
    uint64_t share = 0, memory_bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      share += gpus[i].left.share;
      memory_bytes += gpus[i].left.memory_bytes;
    }
    return std::tuple(share, memory_bytes, server);
  }
};

std::vector<Candidate> CandidatesOf(const Inventory& pool, const Wish& wish, const FilterView& view, Refusals* refusals) {
  std::vector<Candidate> candidates;
  for (const auto& [id, server] : pool.servers()) {
    Candidate candidate{.server = id, .gpus = {}};
    for (uint32_t number = 0; number < server.gpus.size(); ++number) {
      const Inventory::Gpu& gpu = server.gpus[number];
      const GpuAmount wanted = AmountOf(wish, gpu.is), free = view.FreeOf(gpu);
      if (refusals->Refuse(wish, view.NotOffered(id, server, wish), gpu, wanted, view)) continue;
      candidate.gpus.push_back({number,
                                wanted.memory_bytes - ContextsOf(gpu.is, wish.processes),
                                {free.share - wanted.share, free.memory_bytes - wanted.memory_bytes}});
    }
    std::sort(candidate.gpus.begin(), candidate.gpus.end(),
              [](const Fitting& a, const Fitting& b) { return a.Order() < b.Order(); });
    if (candidate.gpus.size() > Placement::kGpusOfPartMax) candidate.gpus.resize(Placement::kGpusOfPartMax);
    if (!candidate.gpus.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

ChosenPart PartOf(const Candidate& candidate, size_t count) {
  ChosenPart part{.server = std::string(candidate.server), .gpus = {}};
  for (size_t i = 0; i < count; ++i) part.gpus.push_back({candidate.gpus[i].gpu, candidate.gpus[i].memory_bytes});
  std::sort(part.gpus.begin(), part.gpus.end(), [](const ChosenGpu& a, const ChosenGpu& b) { return a.gpu < b.gpu; });
  return part;
}

// The best candidate that has `count`: fewest more than that if `tightly`, then least left.
std::vector<Candidate>::iterator BestWith(std::vector<Candidate>& candidates, size_t count, bool tightly) {
  auto best = candidates.end();
  const auto order = [&](const Candidate& one) { return std::tuple(tightly ? one.gpus.size() - count : 0, one.Order(count)); };
  for (auto one = candidates.begin(); one != candidates.end(); ++one) {
    if (one->gpus.size() >= count && (best == candidates.end() || order(*one) < order(*best))) best = one;
  }
  return best;
}

// Empty: they are not there.
std::vector<ChosenPart> Choose(std::vector<Candidate> candidates, const Wish& wish) {
  std::vector<ChosenPart> parts;
  size_t missing = wish.gpus;
  for (bool first = true; missing > 0; first = false) {
    if (parts.size() == Placement::kPartsMax || candidates.empty()) return {};
    auto next = BestWith(candidates, missing, !first);
    if (next == candidates.end()) {
      if (wish.same_server) return {};
      next = std::max_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        // Of those with equally many the one with the least left, so it must come out as the largest.
        return a.gpus.size() != b.gpus.size() ? a.gpus.size() < b.gpus.size() : b.Order(b.gpus.size()) < a.Order(a.gpus.size());
      });
    }
    const size_t count = std::min(missing, next->gpus.size());
    parts.push_back(PartOf(*next, count));
    missing -= count;
    candidates.erase(next);
  }
  return parts;
}

std::string ReasonOf(const Refusals& refusals, const Wish& wish) {
  if (refusals.fit() < wish.gpus) return refusals.Sentence(wish);
  return refusals.Sentence(wish) + (wish.same_server ? "; no server has them all"
                                                     : fmt::format("; a job has {} of a server and {} servers at most",
                                                                   Placement::kGpusOfPartMax, Placement::kPartsMax));
}

}  // namespace

Placement Place(const Inventory& pool, const Wish& wish, int64_t now_ns, const ServerNames& avoided) {
  Refusals now, ever;
  if (std::vector<ChosenPart> parts = Choose(CandidatesOf(pool, wish, {.now_ns = now_ns, .avoided = &avoided}, &now), wish);
      !parts.empty()) {
    return {.outcome = Placement::Outcome::kPlaced, .parts = std::move(parts), .reason = ""};
  }
  const bool fits_when_empty = !Choose(CandidatesOf(pool, wish, {.empty = true}, &ever), wish).empty();
  return {.outcome = fits_when_empty ? Placement::Outcome::kWaits : Placement::Outcome::kNever,
          .parts = {},
          .reason = ReasonOf(fits_when_empty ? now : ever, wish)};
}

}  // namespace tessera
