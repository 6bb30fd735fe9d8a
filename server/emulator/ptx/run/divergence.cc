// How the lanes of a warp part and meet again.
//
// A branch that only some lanes take makes a Node at the branch's immediate post-dominator and one Split per side; a split
// that reaches its node's position waits there until every expected lane has come or exited. Splits are scheduled
// independently, so one that waits at a barrier, or spins, does not keep the others from running. A call makes a Node too:
// lanes may return at different times, and the caller goes on once all have.
#include <fmt/core.h>

#include <algorithm>

#include "server/emulator/ptx/run/program.h"
#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {
namespace {
constexpr uint32_t kMaxLocalBytes = 512 << 10;  // per thread, as on a device
}

int32_t Warp::NewNode(uint32_t pc, uint32_t expected, int32_t parent, Frame* frame) {
  int32_t index;
  if (!free_nodes_.empty()) {
    index = free_nodes_.back();
    free_nodes_.pop_back();
  } else {
    index = static_cast<int32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  Node& node = nodes_[static_cast<size_t>(index)];
  node = Node{};
  node.pc = pc;
  node.expected = expected;
  node.parent = parent;
  node.frame = frame;
  node.used = true;
  return index;
}

void Warp::Branch(const Inst& inst, uint32_t taken) {
  const uint32_t others = mask_ & ~taken;
  if (inst.reconverge != kEndOfFunction) {
    const bool same = node_ >= 0 && nodes_[static_cast<size_t>(node_)].callee == nullptr &&
                      nodes_[static_cast<size_t>(node_)].pc == inst.reconverge;
    if (!same) node_ = NewNode(inst.reconverge, mask_, node_, frame_);
    // The side that has nothing to do before they meet is there already.
    Node& node = nodes_[static_cast<size_t>(node_)];
    if (node.arrived == 0) node.waiting_since = executed_;
    if (inst.target == inst.reconverge) {
      node.arrived |= taken;
      mask_ = others;
      ++pc_;
      return;
    }
    if (pc_ + 1 == inst.reconverge) {
      node.arrived |= others;
      mask_ = taken;
      pc_ = inst.target;
      return;
    }
  }
  Split split;
  split.pc = inst.target;
  split.mask = taken;
  split.frame = frame_;
  split.node = node_;
  splits_.push_back(split);
  mask_ = others;
  ++pc_;
}

void Warp::BranchTable(const Inst& inst, uint32_t lanes) {
  const uint32_t* index = Slot<uint32_t>(inst.src[0]);
  const uint32_t* table = frame_->code->extra.data() + inst.extra;
  uint32_t targets[kLaneCount];
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    targets[lane] = pc_ + 1;
    if ((lanes >> lane & 1) == 0) continue;
    if (index[lane] >= inst.imm) {
      Fault(LaunchError::kIllegalInstruction, inst,
            fmt::format("index {} is outside a branch table of {}", index[lane], inst.imm));
      return;
    }
    targets[lane] = table[index[lane]];
  }
  Scatter(inst, mask_, targets);
}

void Warp::Scatter(const Inst& inst, uint32_t lanes, const uint32_t* targets) {
  const uint32_t first = targets[std::countr_zero(lanes)];
  uint32_t same = 0;
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    if ((lanes >> lane & 1) != 0 && targets[lane] == first) same |= 1u << lane;
  }
  if (same == lanes) {
    pc_ = first;
    return;
  }
  if (inst.reconverge != kEndOfFunction && !(node_ >= 0 && nodes_[static_cast<size_t>(node_)].callee == nullptr &&
                                             nodes_[static_cast<size_t>(node_)].pc == inst.reconverge)) {
    node_ = NewNode(inst.reconverge, lanes, node_, frame_);
  }
  uint32_t rest = lanes & ~same;
  while (rest != 0) {
    Split split;
    split.pc = targets[std::countr_zero(rest)];
    for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
      if ((rest >> lane & 1) != 0 && targets[lane] == split.pc) split.mask |= 1u << lane;
    }
    split.frame = frame_;
    split.node = node_;
    splits_.push_back(split);
    rest &= ~split.mask;
  }
  mask_ = same;
  pc_ = first;
}

void Warp::Arrive(int32_t index, uint32_t lanes) {
  Node& node = nodes_[static_cast<size_t>(index)];
  if (node.arrived == 0) node.waiting_since = executed_;
  node.arrived |= lanes;
  if (node.arrived == node.expected) CompleteNode(index);
}

// Every expected lane has arrived (or none is left): the node turns into a split, or vanishes.
void Warp::CompleteNode(int32_t index) {
  Node& node = nodes_[static_cast<size_t>(index)];
  if (node.callee != nullptr) FreeFrame(node.callee);
  node.used = false;
  free_nodes_.push_back(index);
  if (node.arrived == 0) return;
  Split split;
  split.pc = node.pc;
  split.mask = node.arrived;
  split.frame = node.frame;
  split.node = node.parent;
  if (!running_)
    LoadCurrent(split);
  else
    splits_.push_back(split);
}

// Takes lanes out of every node from `index` outwards up to (not including) `until`.
void Warp::Withdraw(int32_t index, int32_t until, uint32_t lanes) {
  while (index >= 0 && index != until) {
    Node& node = nodes_[static_cast<size_t>(index)];
    const int32_t parent = node.parent;
    node.expected &= ~lanes;
    if (node.arrived == node.expected) CompleteNode(index);
    index = parent;
  }
}

Frame* Warp::NewFrame(const Code* code, uint32_t local_base) {
  Frame* frame = worker_->TakeFrame(code);
  frame->local_base = local_base;
  return frame;
}

void Warp::FreeFrame(Frame* frame) {
  if (frame != nullptr) worker_->GiveFrame(frame);
}

bool Warp::GrowLocal(uint32_t needed) {
  if (needed <= local_capacity_) return true;
  if (needed > kMaxLocalBytes) return false;
  uint32_t capacity = std::max<uint32_t>(256, local_capacity_);
  while (capacity < needed) capacity *= 2;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(256, static_cast<size_t>(capacity) * kLaneCount));
  if (memory == nullptr) return false;
  std::memset(memory, 0, static_cast<size_t>(capacity) * kLaneCount);
  for (uint32_t lane = 0; lane < kLaneCount && local_ != nullptr; ++lane) {
    std::memcpy(memory + static_cast<size_t>(lane) * capacity, LocalLane(lane), local_capacity_);
  }
  local_.reset(memory);
  local_capacity_ = capacity;
  return true;
}

void Warp::Move(const Transfer& from, const Frame& from_frame, const Transfer& to, const Frame& to_frame, uint32_t lanes) {
  const uint32_t size = std::min(from.size_bytes, to.size_bytes);
  const uint8_t* from_registers = (from.slot & kConstantSlot) != 0
                                      ? from_frame.code->constants.get() + (from.slot & ~kConstantSlot)
                                      : from_frame.regs + from.slot;
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const uint8_t* source = from.is_register ? from_registers + static_cast<size_t>(lane) * from.size_bytes
                                             : LocalLane(lane) + from_frame.local_base + from.local_offset;
    uint8_t* target = to.is_register ? to_frame.regs + to.slot + static_cast<size_t>(lane) * to.size_bytes
                                     : LocalLane(lane) + to_frame.local_base + to.local_offset;
    std::memcpy(target, source, size);
  }
}

void Warp::Call(const Inst& inst, const Code* callee, uint32_t lanes) {
  if (callee == nullptr) return Fault(LaunchError::kUnsupported, inst, grid_->executable->MissingReason(inst.target));
  const uint32_t local_base = frame_->local_base + ((frame_->code->local_bytes + 15) & ~15u);
  if (nodes_.size() > 100000 || !GrowLocal(local_base + callee->local_bytes + 16)) {
    return Fault(LaunchError::kStackOverflow, inst, fmt::format("the stack overflows in a call of '{}'", callee->name));
  }
  const CallSite& site = frame_->code->calls[inst.extra];
  if (site.arguments.size() != callee->formals.size() || site.results.size() > callee->results.size()) {
    return Fault(LaunchError::kIllegalInstruction, inst,
                 fmt::format("a call of '{}' passes {} arguments, it has {}", callee->name, site.arguments.size(),
                             callee->formals.size()));
  }
  if (lanes != mask_) {  // the others go on behind the call
    Split others;
    others.pc = pc_;
    others.mask = mask_ & ~lanes;
    others.frame = frame_;
    others.node = node_;
    splits_.push_back(others);
  }
  Frame* frame = NewFrame(callee, local_base);
  for (size_t i = 0; i < site.arguments.size(); ++i) Move(site.arguments[i], *frame_, callee->formals[i], *frame, lanes);
  const int32_t node = NewNode(pc_, lanes, node_, frame_);
  nodes_[static_cast<size_t>(node)].callee = frame;
  nodes_[static_cast<size_t>(node)].call_site = inst.extra;
  Split split;
  split.mask = lanes;
  split.frame = frame;
  split.node = node;
  LoadCurrent(split);
}

void Warp::CallIndirect(const Inst& inst, uint32_t lanes) {
  const uint64_t* address = Slot<uint64_t>(inst.src[0]);
  const uint64_t target = address[std::countr_zero(lanes)];
  uint32_t same = 0;
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    if ((lanes >> lane & 1) != 0 && address[lane] == target) same |= 1u << lane;
  }
  const uint64_t id = (target - kFunctionWindow) / kFunctionStride;
  if ((target & kWindowMask) != kFunctionWindow || target % kFunctionStride != 0 || id >= grid_->executable->codes.size()) {
    return Fault(LaunchError::kIllegalInstruction, inst, fmt::format("a call goes to {:#x}, which is not a function", target));
  }
  if (same != lanes) {
    // The lanes that call something else repeat this instruction on their own and meet the first behind it.
    const int32_t node = NewNode(pc_, mask_, node_, frame_);
    if (lanes != mask_) {
      Split others;
      others.pc = pc_;
      others.mask = mask_ & ~lanes;
      others.frame = frame_;
      others.node = node_;
      splits_.push_back(others);
    }
    Split rest;
    rest.pc = pc_ - 1;
    rest.mask = lanes & ~same;
    rest.frame = frame_;
    rest.node = node;
    splits_.push_back(rest);
    mask_ = same;
    node_ = node;
  }
  Inst direct = inst;
  direct.target = static_cast<uint32_t>(id);
  Call(direct, grid_->executable->codes[id].get(), same);
}

void Warp::Return(uint32_t lanes) {
  int32_t node = node_;
  while (node >= 0 && nodes_[static_cast<size_t>(node)].callee == nullptr) node = nodes_[static_cast<size_t>(node)].parent;
  if (node < 0) return Exit(lanes);  // ret of a kernel
  {
    const Node& end = nodes_[static_cast<size_t>(node)];
    const CallSite& site = end.frame->code->calls[end.call_site];
    for (size_t i = 0; i < site.results.size(); ++i) Move(frame_->code->results[i], *frame_, site.results[i], *end.frame, lanes);
  }
  const int32_t inner = node_;
  mask_ &= ~lanes;
  if (mask_ == 0) DropCurrent();
  Withdraw(inner, node, lanes);
  Arrive(node, lanes);
}

void Warp::Exit(uint32_t lanes) {
  const int32_t inner = node_;
  mask_ &= ~lanes;
  live_ &= ~lanes;
  if (mask_ == 0) DropCurrent();
  Withdraw(inner, -1, lanes);
  if (live_ == 0) {
    FreeFrame(root_frame_);  // only the kernel's own is left: calls freed theirs with their nodes
    root_frame_ = nullptr;
    splits_.clear();
    running_ = false;
  }
  block_->CheckBarriers();
}

// Lanes that wait at a meeting point while another part of the warp runs on and on may be the ones it waits for: let the
// arrived ones go ahead on their own.
bool Warp::ReleaseEarly(uint64_t age) {
  bool any = false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (!node.used || node.arrived == 0 || node.waiting_since + age > executed_) continue;
    Split split;
    split.pc = node.pc;
    split.mask = node.arrived;
    split.frame = node.frame;
    split.node = node.parent;
    node.expected &= ~node.arrived;
    node.arrived = 0;
    // A Join at node.pc compares with the parent, which is what they belong to now.
    splits_.push_back(split);
    any = true;
  }
  return any;
}

void Warp::WarpSync(const Inst& inst, uint32_t lanes) {
  uint32_t required = 0;
  const uint32_t* members = Slot<uint32_t>(inst.src[3]);
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    if (lanes >> lane & 1) required |= members[lane];
  }
  required &= live_;
  if ((required & ~lanes) == 0) {
    if (inst.run != nullptr) inst.run(*this, inst, lanes);
    ++pc_;
    return;
  }
  Split waiting;
  waiting.pc = pc_;
  waiting.mask = lanes;
  waiting.frame = frame_;
  waiting.node = node_;
  waiting.state = Split::kAtWarpSync;
  waiting.required = required;
  splits_.push_back(waiting);
  mask_ &= ~lanes;
  ++pc_;
  if (mask_ == 0) DropCurrent();
}

// Lets waiting splits run once all the lanes they name wait too. Splits at the same instruction exchange values with each
// other; `force` does so without the missing lanes.
bool Warp::ResolveWarpSync(bool force) {
  uint32_t waiting = 0;
  for (const Split& split : splits_) {
    if (split.state == Split::kAtWarpSync) waiting |= split.mask;
  }
  for (size_t i = 0; i < splits_.size(); ++i) {
    if (splits_[i].state != Split::kAtWarpSync) continue;
    if (!force && (splits_[i].required & live_ & ~waiting) != 0) continue;
    const uint32_t pc = splits_[i].pc;
    Frame* frame = splits_[i].frame;
    const uint32_t required = splits_[i].required;
    uint32_t lanes = 0;
    for (const Split& other : splits_) {
      if (other.state == Split::kAtWarpSync && other.pc == pc && other.frame == frame &&
          (other.mask & (required | splits_[i].mask)) != 0)
        lanes |= other.mask;
    }
    const Inst& inst = frame->code->insts[pc];
    Split together = splits_[i];
    together.mask = lanes;
    LoadCurrent(together);
    if (inst.run != nullptr) inst.run(*this, inst, lanes);
    DropCurrent();
    for (Split& other : splits_) {
      if (other.state == Split::kAtWarpSync && other.pc == pc && other.frame == frame && (other.mask & ~lanes) == 0) {
        other.state = Split::kReady;
        ++other.pc;
      }
    }
    return true;
  }
  return false;
}

bool Warp::ForceWarpSync() {
  // Only when nothing else of this warp can ever reach the instruction: lanes at a barrier may still come.
  for (const Split& split : splits_) {
    if (split.state == Split::kAtBarrier) return false;
  }
  return ResolveWarpSync(true);
}

}  // namespace tessera::emulator
