#include "netaware/placer/place.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
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
  std::optional<uint32_t> numa, pci_group;

  auto Worth() const { return std::tuple(left.share, left.memory_bytes); }
  auto Order() const { return std::tuple(Worth(), gpu); }
};

// The places of a GPU, from the largest to the smallest: the NUMA node, the PCIe switches.
using Level = std::optional<uint32_t> Fitting::*;
constexpr Level kLevels[] = {&Fitting::numa, &Fitting::pci_group};

// Takes `count` of GPUs that are equally good, in few places. Places that have some of `chosen` come first.
void TakeTogether(const std::vector<Fitting>& from, size_t count, std::span<const Level> levels, std::vector<Fitting>* chosen) {
  if (levels.empty()) {
    chosen->insert(chosen->end(), from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
    return;
  }
  const Level level = levels.front();
  std::map<std::optional<uint32_t>, std::vector<Fitting>> groups;
  for (const Fitting& gpu : from) groups[gpu.*level].push_back(gpu);
  while (count > 0) {
    // Among equal places, the smallest group that has enough, else the largest group.
    const auto order = [&](const auto& group) {
      const auto is_there = [&](const Fitting& gpu) { return gpu.*level == group.first; };
      const bool is_new = std::none_of(chosen->begin(), chosen->end(), is_there);
      const size_t size = group.second.size();
      return std::tuple(is_new, size < count, size < count ? count - size : size - count, group.second.front().gpu);
    };
    const auto best =
        std::min_element(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
    const size_t taken = std::min(count, best->second.size());
    TakeTogether(best->second, taken, levels.subspan(1), chosen);
    count -= taken;
    groups.erase(best);
  }
}

struct Candidate {
  std::string_view server;
  std::vector<Fitting> gpus;  // the best first

  size_t size() const { return std::min(gpus.size(), Placement::kGpusOfPartMax); }
  // Its `count` best GPUs; among equally good ones, those that are near one another.
  std::vector<Fitting> Best(size_t count) const {
    if (count < 2) return {gpus.begin(), gpus.begin() + static_cast<ptrdiff_t>(count)};
    const auto worth = gpus[count - 1].Worth();
    const auto first = std::find_if(gpus.begin(), gpus.end(), [&](const Fitting& gpu) { return gpu.Worth() == worth; });
    const auto end = std::find_if(first, gpus.end(), [&](const Fitting& gpu) { return gpu.Worth() != worth; });
    std::vector<Fitting> best(gpus.begin(), first);
    TakeTogether({first, end}, count - best.size(), kLevels, &best);
    return best;
  }
  // The share and memory left of its `count` best GPUs. Equally good ones leave the same.
  std::pair<uint64_t, uint64_t> Left(size_t count) const {
    std::pair<uint64_t, uint64_t> left{0, 0};
    for (size_t i = 0; i < count; ++i) {
      left.first += gpus[i].left.share;
      left.second += gpus[i].left.memory_bytes;
    }
    return left;
  }
  // The number of NUMA nodes, and of PCIe switches, of its `count` best GPUs.
  std::pair<size_t, size_t> Places(size_t count) const {
    std::set<std::optional<uint32_t>> nodes, switches;
    for (const Fitting& gpu : Best(count)) {
      nodes.insert(gpu.numa);
      switches.insert(gpu.pci_group);
    }
    return {nodes.size(), switches.size()};
  }
};

bool IsBetter(const Candidate& a, const Candidate& b, size_t count) {
  if (const auto left = a.Left(count), other = b.Left(count); left != other) return left < other;
  // A single GPU has a single place: most jobs skip this comparison, which many equally good servers would repeat.
  if (count > 1) {
    if (const auto places = a.Places(count), other = b.Places(count); places != other) return places < other;
  }
  return a.server < b.server;
}

std::vector<Candidate> CandidatesOf(const Inventory& pool, const Wish& wish, const FilterView& view, Refusals* refusals) {
  std::vector<Candidate> candidates;
  for (const auto& [id, server] : pool.servers()) {
    Candidate candidate{.server = id, .gpus = {}};
    const std::string not_offered = view.NotOffered(id, server, wish);
    for (uint32_t number = 0; number < server.gpus.size(); ++number) {
      const Inventory::Gpu& gpu = server.gpus[number];
      const GpuAmount wanted = AmountOf(wish, gpu.is), free = view.FreeOf(gpu);
      if (refusals->Refuse(wish, not_offered, gpu, wanted, view)) continue;
      candidate.gpus.push_back({number,
                                wanted.memory_bytes - ContextsOf(gpu.is, wish.processes),
                                {free.share - wanted.share, free.memory_bytes - wanted.memory_bytes},
                                gpu.is.numa,
                                gpu.is.pci_group});
    }
    std::sort(candidate.gpus.begin(), candidate.gpus.end(),
              [](const Fitting& a, const Fitting& b) { return a.Order() < b.Order(); });
    if (!candidate.gpus.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

ChosenPart PartOf(const Candidate& candidate, size_t count) {
  ChosenPart part{.server = std::string(candidate.server), .gpus = {}};
  for (const Fitting& gpu : candidate.Best(count)) part.gpus.push_back({gpu.gpu, gpu.memory_bytes});
  std::sort(part.gpus.begin(), part.gpus.end(), [](const ChosenGpu& a, const ChosenGpu& b) { return a.gpu < b.gpu; });
  return part;
}

// The best candidate with at least `count` GPUs: if `tightly`, one with the fewest GPUs; then the one with the least left.
std::vector<Candidate>::iterator BestWith(std::vector<Candidate>& candidates, size_t count, bool tightly) {
  auto best = candidates.end();
  for (auto one = candidates.begin(); one != candidates.end(); ++one) {
    if (one->size() < count) continue;
    const bool is_first = best == candidates.end();
    const bool is_tighter = !is_first && tightly && one->size() != best->size();
    if (is_first || (is_tighter ? one->size() < best->size() : IsBetter(*one, *best, count))) best = one;
  }
  return best;
}

// Empty: the candidates do not have enough GPUs.
std::vector<ChosenPart> Choose(std::vector<Candidate> candidates, const Wish& wish) {
  std::vector<ChosenPart> parts;
  size_t missing = wish.gpus;
  for (bool first = true; missing > 0; first = false) {
    if (parts.size() == Placement::kPartsMax || candidates.empty()) return {};
    auto next = BestWith(candidates, missing, !first);
    if (next == candidates.end()) {
      if (wish.same_server) return {};
      next = std::max_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        // Among candidates with equally many GPUs, the one with the least left has to compare as the largest.
        return a.size() != b.size() ? a.size() < b.size() : IsBetter(b, a, a.size());
      });
    }
    const size_t count = std::min(missing, next->size());
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

bool HasGpus(const Inventory& pool) {
  return std::ranges::any_of(pool.servers(), [](const auto& server) { return !server.second.gpus.empty(); });
}

// For people: the servers that are away, and may come back with more GPUs than are known; empty: none.
std::string AwaitedOf(const Inventory& pool, int64_t now_ns) {
  std::string text;
  for (const auto& [id, server] : pool.servers()) {
    if (server.gpus.empty()) continue;
    if (const std::string away = server.Away(now_ns); !away.empty()) text += fmt::format("; server '{}' {}", id, away);
  }
  return text;
}

}  // namespace

Placement Place(const Inventory& pool, const Wish& wish, int64_t now_ns, const ServerNames& avoided) {
  Refusals now, ever;
  if (std::vector<ChosenPart> parts = Choose(CandidatesOf(pool, wish, {.now_ns = now_ns, .avoided = &avoided}, &now), wish);
      !parts.empty()) {
    return {.outcome = Placement::Outcome::kPlaced, .parts = std::move(parts), .reason = "", .looks = now.looked_at()};
  }
  const bool fits = !Choose(CandidatesOf(pool, wish, {.empty = true}, &ever), wish).empty();
  const uint32_t looks = now.looked_at() + ever.looked_at();
  if (fits) return {.outcome = Placement::Outcome::kWaits, .parts = {}, .reason = ReasonOf(now, wish), .looks = looks};
  if (!HasGpus(pool)) return {.outcome = Placement::Outcome::kWaits, .parts = {}, .reason = "no server has joined the pool"};
  const std::string awaited = AwaitedOf(pool, now_ns);
  return {.outcome = awaited.empty() ? Placement::Outcome::kNever : Placement::Outcome::kWaits,
          .parts = {},
          .reason = ReasonOf(ever, wish) + awaited,
          .looks = looks};
}

}  // namespace tessera
