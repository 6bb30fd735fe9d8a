// A block: its warps take turns on one thread; barriers count threads. Source: PTX ISA 9.0, "barrier{.cta}".
#include <fmt/core.h>

#include <algorithm>

#include "server/emulator/ptx/run/program.h"
#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {

void Block::Start(Worker* worker, uint64_t index) {
  worker_ = worker;
  linear_index = index;
  GridRun& grid = worker->grid();
  const Dim3& dim = grid.launch->grid;
  id_x = static_cast<uint32_t>(index % dim.x);
  id_y = static_cast<uint32_t>(index / dim.x % dim.y);
  id_z = static_cast<uint32_t>(index / dim.x / dim.y);
  const Dim3& block = grid.launch->block;
  const uint32_t threads = block.x * block.y * block.z;
  warp_count_ = (threads + kLaneCount - 1) / kLaneCount;
  while (warps_.size() < warp_count_) warps_.push_back(std::make_unique<Warp>());
  shared_.assign(grid.shared_bytes, 0);
  for (BarrierState& state : barriers_) state = BarrierState{};
  for (uint32_t i = 0; i < warp_count_; ++i) {
    const uint32_t lanes = std::min(kLaneCount, threads - i * kLaneCount);
    warps_[i]->Start(this, i, lanes == kLaneCount ? kAllLanes : (1u << lanes) - 1, grid.executable->kernel);
  }
  first_warp_ = static_cast<uint32_t>((grid.environment->seed ^ (index * 0x9E3779B97F4A7C15ull)) >> 7) % warp_count_;
}

bool Block::RunSlice(int64_t budget) {
  GridRun& grid = worker_->grid();
  bool any_live = false;
  bool progress = false;
  uint64_t before = 0, after = 0;
  for (uint32_t i = 0; i < warp_count_; ++i) {
    Warp& warp = *warps_[(first_warp_ + i) % warp_count_];
    if (warp.live() == 0) continue;
    before = warp.executed();
    if (warp.RunSlice(budget)) progress = true;
    after = warp.executed();
    if (after != before) {
      progress = true;
      grid.instructions.fetch_add(after - before, std::memory_order_relaxed);
    }
    if (grid.stop.load(std::memory_order_relaxed)) return false;
  }
  for (uint32_t i = 0; i < warp_count_; ++i) any_live |= warps_[i]->live() != 0;
  // Lanes may wait to meet others that wait at a barrier for them (they were on their way out): let them go.
  if (any_live && !progress) {
    for (uint32_t i = 0; i < warp_count_; ++i) progress |= warps_[i]->live() != 0 && warps_[i]->ReleaseEarly(0);
  }
  if (any_live && !progress) {
    std::string where;
    for (uint32_t b = 0; b < 17; ++b) {
      uint32_t waiting = 0;
      for (uint32_t i = 0; i < warp_count_; ++i) waiting += static_cast<uint32_t>(std::popcount(warps_[i]->WaitingAt(b)));
      if (waiting != 0) where += fmt::format(", {} threads at barrier {}", waiting, b);
    }
    grid.Fail(LaunchError::kDeadlock, fmt::format("block {},{},{} can never go on{}", id_x, id_y, id_z, where));
    return false;
  }
  return any_live;
}

void Block::ArriveBarrier(Warp& warp, uint32_t id, uint32_t lanes, uint32_t thread_count) {
  BarrierState& state = barriers_[id];
  state.in_use = true;
  state.arrived[warp.index()] |= lanes;
  if (thread_count != 0) state.expected_threads = thread_count;
  CheckBarriers();
}

bool Block::BarrierComplete(const BarrierState& state) const {
  if (state.expected_threads == 0) {
    for (uint32_t i = 0; i < warp_count_; ++i) {
      if ((warps_[i]->live() & ~state.arrived[i]) != 0) return false;
    }
    return true;
  }
  // A warp counts in full once all its live lanes are there: the count is a multiple of the warp size.
  uint32_t threads = 0;
  for (uint32_t i = 0; i < warp_count_; ++i) {
    const uint32_t arrived = state.arrived[i];
    if (arrived == 0) continue;
    threads += (warps_[i]->live() & ~arrived) == 0 ? kLaneCount : static_cast<uint32_t>(std::popcount(arrived));
  }
  return threads >= state.expected_threads;
}

void Block::CheckBarriers() {
  for (uint32_t id = 0; id < 17; ++id) {
    BarrierState& state = barriers_[id];
    if (!state.in_use || !BarrierComplete(state)) continue;
    for (uint32_t i = 0; i < warp_count_; ++i) warps_[i]->ReleaseBarrier(id);
    state = BarrierState{};
  }
}

}  // namespace tessera::emulator
