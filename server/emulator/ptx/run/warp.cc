// The interpreter's loop.
#include "server/emulator/ptx/run/warp.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/emulator/ptx/run/program.h"

namespace tessera::emulator {
namespace {
// Instructions that lanes wait for the rest of their warp before they go ahead alone: the rest may be spinning on them.
constexpr uint64_t kPatience = 50000;
}  // namespace

void Warp::Start(Block* block, uint32_t index, uint32_t live, const Code* kernel) {
  block_ = block;
  worker_ = &block->worker();
  grid_ = &worker_->grid();
  index_ = index;
  live_ = live;
  executed_ = 0;
  splits_.clear();
  nodes_.clear();
  free_nodes_.clear();
  running_ = false;
  const Dim3& dim = grid_->launch->block;
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    const uint32_t thread = index * kLaneCount + lane;
    thread_x[lane] = thread % dim.x;
    thread_y[lane] = thread / dim.x % dim.y;
    thread_z[lane] = thread / dim.x / dim.y;
  }
  if (!GrowLocal(kernel->local_bytes)) {
    grid_->Fail(LaunchError::kStackOverflow,
                fmt::format("kernel '{}' needs {} bytes of local memory per thread", kernel->name, kernel->local_bytes));
    return;
  }
  Split split;
  split.mask = live;
  root_frame_ = NewFrame(kernel, 0);
  split.frame = root_frame_;
  splits_.push_back(split);
}

void Warp::Fault(LaunchError error, const Inst& inst, const std::string& what) {
  grid_->Fail(error, fmt::format("{} (function '{}', ptx line {}, block {},{},{}, warp {})", what, frame_->code->name, inst.line,
                                 block_->id_x, block_->id_y, block_->id_z, index_));
}

void Warp::LoadCurrent(const Split& split) {
  frame_ = split.frame;
  bases_[0] = frame_->regs;
  bases_[1] = frame_->code->constants.get();
  pc_ = split.pc;
  mask_ = split.mask;
  node_ = split.node;
  running_ = true;
}

void Warp::StoreCurrent() {
  Split split;
  split.pc = pc_;
  split.mask = mask_;
  split.frame = frame_;
  split.node = node_;
  splits_.push_back(split);
  running_ = false;
}

void Warp::DropCurrent() { running_ = false; }

bool Warp::PickSplit() {
  for (size_t i = splits_.size(); i-- > 0;) {
    if (splits_[i].state != Split::kReady) continue;
    const Split split = splits_[i];
    splits_.erase(splits_.begin() + static_cast<ptrdiff_t>(i));
    LoadCurrent(split);
    return true;
  }
  return false;
}

bool Warp::RunSlice(int64_t budget) {
  const uint64_t limit = executed_ + static_cast<uint64_t>(budget);
  yielded_ = false;
  while (!grid_->stop.load(std::memory_order_relaxed)) {
    if (!running_ && !PickSplit()) {
      if (!ResolveWarpSync(false) && !ForceWarpSync()) return false;
      continue;
    }
    Execute(static_cast<int64_t>(limit - executed_));
    if (executed_ >= limit || yielded_) {
      if (running_) {
        // Lanes that spin on what another part of the warp must do get out of its way.
        StoreCurrent();
        std::rotate(splits_.begin(), splits_.end() - 1, splits_.end());
        ReleaseEarly(kPatience);
      }
      return true;
    }
  }
  return false;
}

void Warp::Execute(int64_t budget) {
  const Inst* insts = frame_->code->insts.data();
  uint64_t executed = 0;
  while (static_cast<int64_t>(executed) < budget) {
    const Inst& inst = insts[pc_];
    ++executed;
    uint32_t lanes = mask_;
    if (inst.guard != kNoSlot) {
      const uint32_t guard = *Slot<uint32_t>(inst.guard);
      lanes &= inst.guard_negated ? ~guard : guard;
    }
    if (inst.kind == InstKind::kPlain) {
      if (lanes != 0) inst.run(*this, inst, lanes);
      ++pc_;
      continue;
    }
    if (inst.kind == InstKind::kBranch) {
      if (lanes == mask_)
        pc_ = inst.target;
      else if (lanes == 0)
        ++pc_;
      else
        Branch(inst, lanes);
    } else if (inst.kind == InstKind::kJoin) {
      ++pc_;
      if (node_ >= 0 && nodes_[static_cast<size_t>(node_)].pc == pc_ - 1 &&
          nodes_[static_cast<size_t>(node_)].callee == nullptr) {
        const int32_t node = node_;
        const uint32_t mask = mask_;
        DropCurrent();
        Arrive(node, mask);
      }
    } else if (inst.kind == InstKind::kReturn) {
      if (lanes == mask_) {
        Return(lanes);
      } else {
        ++pc_;
        if (lanes != 0) Return(lanes);
      }
    } else if (lanes == 0) {
      ++pc_;
    } else {
      switch (inst.kind) {
        case InstKind::kBranchTable: BranchTable(inst, lanes); break;
        case InstKind::kCall:
          ++pc_;
          Call(inst, grid_->executable->codes[inst.target].get(), lanes);
          break;
        case InstKind::kCallIndirect:
          ++pc_;
          CallIndirect(inst, lanes);
          break;
        case InstKind::kCallBuiltin:
          inst.run(*this, inst, lanes);
          ++pc_;
          break;
        case InstKind::kExit:
          ++pc_;
          Exit(lanes);
          break;
        case InstKind::kBarrier:
          ++pc_;
          Barrier(inst, lanes);
          break;
        case InstKind::kWarpSync: WarpSync(inst, lanes); break;
        case InstKind::kYield:
          ++pc_;
          yielded_ = true;
          break;
        default: break;
      }
    }
    if (!running_ || yielded_ || grid_->stop.load(std::memory_order_relaxed)) break;
    insts = frame_->code->insts.data();
  }
  executed_ += executed;
}

void Warp::Barrier(const Inst& inst, uint32_t lanes) {
  const uint32_t id = Slot<uint32_t>(inst.src[0])[std::countr_zero(lanes)];
  uint32_t threads = 0;
  if (inst.src[1] != kNoSlot) threads = Slot<uint32_t>(inst.src[1])[std::countr_zero(lanes)];
  if (id > 16 || (id == 16 && inst.small == 0))
    return Fault(LaunchError::kIllegalInstruction, inst, fmt::format("barrier {} does not exist", id));  // 16 is the cluster's
  const auto kind = static_cast<BarrierKind>(inst.imm);
  BarrierState& state = block_->barrier(id);
  if (kind != BarrierKind::kSync && kind != BarrierKind::kArrive) {
    uint32_t values = *Slot<uint32_t>(inst.src[2]);
    state.popc += static_cast<uint32_t>(std::popcount(values & lanes));
    state.all = state.all && (values & lanes) == lanes;
    state.any = state.any || (values & lanes) != 0;
  }
  if (kind != BarrierKind::kArrive) {
    // The lanes wait; others of the split that were masked off go on.
    Split waiting;
    waiting.pc = pc_;
    waiting.mask = lanes;
    waiting.frame = frame_;
    waiting.node = node_;
    waiting.state = Split::kAtBarrier;
    waiting.barrier = static_cast<uint8_t>(id);
    splits_.push_back(waiting);
    mask_ &= ~lanes;
    if (mask_ == 0) DropCurrent();
  }
  block_->ArriveBarrier(*this, id, lanes, threads);
}

void Warp::ReleaseBarrier(uint32_t barrier) {
  const BarrierState& state = block_->barrier(barrier);
  for (Split& split : splits_) {
    if (split.state != Split::kAtBarrier || split.barrier != barrier) continue;
    split.state = Split::kReady;
    const Inst& inst = split.frame->code->insts[split.pc - 1];
    const auto kind = static_cast<BarrierKind>(inst.imm);
    if (inst.dst == kNoSlot) continue;
    uint8_t* slot = split.frame->regs + inst.dst;
    if (kind == BarrierKind::kPopc) {
      for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
        if (split.mask >> lane & 1) reinterpret_cast<uint32_t*>(slot)[lane] = state.popc;
      }
    } else {
      const bool value = kind == BarrierKind::kAnd ? state.all : state.any;
      uint32_t& bits = *reinterpret_cast<uint32_t*>(slot);
      bits = value ? bits | split.mask : bits & ~split.mask;
    }
  }
}

uint32_t Warp::WaitingAt(uint32_t barrier) const {
  uint32_t lanes = 0;
  for (const Split& split : splits_) {
    if (split.state == Split::kAtBarrier && split.barrier == barrier) lanes |= split.mask;
  }
  return lanes;
}

}  // namespace tessera::emulator
