#include "scheduler/simulate/share_grid.h"

#include <algorithm>

#include "scheduler/admission.h"
#include "scheduler/share_filling.h"

namespace tessera {
namespace {

struct Edge {
  int64_t at_ns;
  size_t lane;
  bool begins;
  bool runs;  // of an interval in which it ran; else of one in which it wanted to
};

std::vector<Edge> EdgesOf(const Timeline& timeline) {
  std::vector<Edge> edges;
  for (size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    for (const bool runs : {false, true}) {
      for (const Interval& each : runs ? timeline.lanes[lane].ran : timeline.lanes[lane].wanted) {
        edges.push_back({each.begin_ns, lane, true, runs});
        edges.push_back({each.end_ns, lane, false, runs});
      }
    }
  }
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at_ns < b.at_ns; });
  return edges;
}

void AddIdeals(const Timeline& timeline, ShareGrid* grid) {
  std::vector<size_t> wanting;
  std::vector<ShareBounds> bounds;
  std::vector<double> shares;
  for (size_t step = 0; step < grid->steps; ++step) {
    wanting.clear();
    bounds.clear();
    double without_request = 0;
    for (size_t lane = 0; lane < grid->lanes.size(); ++lane) {
      if (grid->lanes[lane].wanted_ns[step] < kGridStepNs / 2) continue;
      wanting.push_back(lane);
      without_request += timeline.lanes[lane].spec.request <= 0;
    }
    for (const size_t lane : wanting) {
      const VgpuSpec& spec = timeline.lanes[lane].spec;
      const double floor = spec.request > 0 ? spec.request : kShareWithoutRequest / without_request;
      bounds.push_back({std::min(floor, spec.limit), spec.limit});
    }
    shares.resize(bounds.size());
    FillShares(bounds, 1, shares);
    for (size_t i = 0; i < wanting.size(); ++i) grid->lanes[wanting[i]].ideal_ns[step] = shares[i] * kGridStepNs;
  }
}

}  // namespace

ShareGrid MakeShareGrid(const Timeline& timeline) {
  ShareGrid grid;
  grid.steps = static_cast<size_t>((timeline.end_ns - timeline.begin_ns) / kGridStepNs);
  grid.lanes.resize(timeline.lanes.size());
  for (GridLane& lane : grid.lanes) {
    for (std::vector<double>* each : {&lane.got_ns, &lane.wanted_ns, &lane.ideal_ns}) each->resize(grid.steps + 1);
  }
  std::vector<size_t> running, wanting;
  int64_t at_ns = timeline.begin_ns;
  const auto pass = [&](int64_t until_ns) {
    const auto length_ns = static_cast<double>(until_ns - at_ns);
    if (!running.empty()) grid.busy_ns += length_ns;
    if (running.empty() && !wanting.empty()) grid.idle_while_wanted_ns += length_ns;
    while (at_ns < until_ns) {
      const auto step = static_cast<size_t>((at_ns - timeline.begin_ns) / kGridStepNs);
      const int64_t end_ns = std::min(until_ns, timeline.begin_ns + static_cast<int64_t>(step + 1) * kGridStepNs);
      const auto part_ns = static_cast<double>(end_ns - at_ns);
      for (const size_t lane : running) grid.lanes[lane].got_ns[step] += part_ns / static_cast<double>(running.size());
      for (const size_t lane : wanting) grid.lanes[lane].wanted_ns[step] += part_ns;
      at_ns = end_ns;
    }
  };
  for (const Edge& edge : EdgesOf(timeline)) {
    if (edge.at_ns > at_ns) pass(std::min(edge.at_ns, timeline.end_ns));
    std::vector<size_t>& set = edge.runs ? running : wanting;
    if (edge.begins) {
      set.push_back(edge.lane);
    } else {
      set.erase(std::find(set.begin(), set.end(), edge.lane));
    }
  }
  AddIdeals(timeline, &grid);
  return grid;
}

}  // namespace tessera
