// Exchange between the lanes of a warp. Source: PTX ISA 9.0, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync".
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

// Calls each(group) for every distinct set of lanes that named each other; usually there is one.
template <class F>
void ForGroups(Warp& w, const Inst& inst, uint32_t mask, F&& each) {
  const uint32_t* members = inst.src[3] == kNoSlot ? nullptr : w.Slot<uint32_t>(inst.src[3]);
  uint32_t rest = mask;
  while (rest != 0) {
    const auto first = static_cast<uint32_t>(std::countr_zero(rest));
    const uint32_t named = members == nullptr ? kAllLanes : members[first];
    uint32_t group = 0;
    for (uint32_t l = first; l < kLaneCount; ++l) {
      if ((rest >> l & 1) != 0 && (members == nullptr || members[l] == named)) group |= 1u << l;
    }
    each(group, named & mask);  // those to be served, and those that take part
    rest &= ~group;
  }
}

enum VoteMode : uint8_t { kAll, kAny, kUni, kBallot };
void Vote(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t values = *w.Slot<uint32_t>(inst.src[0]);
  ForGroups(w, inst, mask, [&](uint32_t group, uint32_t participants) {
    const uint32_t yes = values & participants;
    bool result = false;
    switch (inst.small) {
      case kAll: result = yes == participants; break;
      case kAny: result = yes != 0; break;
      case kUni: result = yes == 0 || yes == participants; break;
      default: {
        uint32_t* d = w.Slot<uint32_t>(inst.dst);
        ForLanes(group, [&](uint32_t l) { d[l] = yes; });
        return;
      }
    }
    WriteBits(w, inst.dst, result ? kAllLanes : 0, group);
  });
}
void LowerVote(Lowering& l) {
  const bool sync = l.Take("sync");
  uint8_t mode = kBallot;
  if (l.Take("all"))
    mode = kAll;
  else if (l.Take("any"))
    mode = kAny;
  else if (l.Take("uni"))
    mode = kUni;
  else if (!l.Take("ballot"))
    return l.Unknown();
  const Type t = l.TakeType();
  const uint32_t a = l.Predicate(1), members = sync ? l.Source(2, kU32) : kNoSlot, d = l.Destination(0, t);
  if ((mode == kBallot) == t.IsPredicate()) return l.Unknown();
  Inst& inst = l.Emit(&Vote, sync ? InstKind::kWarpSync : InstKind::kPlain);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[3] = members;
  inst.small = mode;
}

void ActiveMask(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  ForLanes(mask, [&](uint32_t l) { d[l] = mask; });
}
void LowerActiveMask(Lowering& l) {
  const Type t = l.TakeType();
  const uint32_t d = l.Destination(0, t);
  l.Emit(&ActiveMask).dst = d;
}

template <class T, bool kAllMode>
void Match(Warp& w, const Inst& inst, uint32_t mask) {
  const T* a = w.Slot<T>(inst.src[0]);
  uint32_t result[kLaneCount] = {}, equal_bits = 0;
  ForGroups(w, inst, mask, [&](uint32_t group, uint32_t participants) {
    for (uint32_t l = 0; l < kLaneCount; ++l) {
      if ((group >> l & 1) == 0) continue;
      uint32_t same = 0;
      for (uint32_t k = 0; k < kLaneCount; ++k) {
        if ((participants >> k & 1) != 0 && a[k] == a[l]) same |= 1u << k;
      }
      result[l] = kAllMode ? (same == participants ? same : 0) : same;
      if (same == participants) equal_bits |= 1u << l;
    }
  });
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  ForLanes(mask, [&](uint32_t l) { d[l] = result[l]; });
  if (inst.src[1] != kNoSlot) WriteBits(w, inst.src[1], equal_bits, mask);
}
void LowerMatch(Lowering& l) {
  const bool all = l.Take("all"), any = l.Take("any");
  if (!l.Take("sync") || all == any) return l.Unknown();
  const Type t = l.TakeType();
  const Operand& result = l.operand(0);
  const bool pair = result.kind == Operand::kPair;
  const uint32_t a = l.Source(1, t), members = l.Source(2, kU32);
  const uint32_t d = l.Destination(pair ? result.elements[0] : result, kB32);
  const uint32_t p = pair ? l.Destination(result.elements[1], kPred) : kNoSlot;
  Handler run = t.size_bytes == 4 ? (all ? &Match<uint32_t, true> : &Match<uint32_t, false>)
                                  : (all ? &Match<uint64_t, true> : &Match<uint64_t, false>);
  Inst& inst = l.Emit(run, InstKind::kWarpSync);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[1] = p;
  inst.src[3] = members;
}

enum ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };
template <int kMode>
void Shuffle(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t values[kLaneCount];
  std::memcpy(values, w.Slot<uint32_t>(inst.src[0]), sizeof(values));
  const uint32_t* b = w.Slot<uint32_t>(inst.src[1]);
  const uint32_t* c = w.Slot<uint32_t>(inst.src[2]);
  uint32_t result[kLaneCount], in_range = 0;
  for (uint32_t l = 0; l < kLaneCount; ++l) {
    const uint32_t step = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    const uint32_t highest = (l & segment) | (clamp & ~segment), lowest = l & segment;
    int32_t j = 0;
    bool p = false;
    switch (kMode) {
      case kUp:
        j = static_cast<int32_t>(l) - static_cast<int32_t>(step);
        p = j >= static_cast<int32_t>(highest);
        break;
      case kDown:
        j = static_cast<int32_t>(l + step);
        p = j <= static_cast<int32_t>(highest);
        break;
      case kButterfly:
        j = static_cast<int32_t>(l ^ step);
        p = j <= static_cast<int32_t>(highest);
        break;
      default:
        j = static_cast<int32_t>(lowest | (step & ~segment));
        p = j <= static_cast<int32_t>(highest);
        break;
    }
    if (!p) j = static_cast<int32_t>(l);
    in_range |= static_cast<uint32_t>(p) << l;
    result[l] = values[j & 31];
  }
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  ForLanes(mask, [&](uint32_t l) { d[l] = result[l]; });
  if (inst.extra != 0) WriteBits(w, w.code().extra[inst.extra - 1], in_range, mask);
}
void LowerShuffle(Lowering& l) {
  const bool sync = l.Take("sync");
  Handler run = nullptr;
  if (l.Take("up"))
    run = &Shuffle<kUp>;
  else if (l.Take("down"))
    run = &Shuffle<kDown>;
  else if (l.Take("bfly"))
    run = &Shuffle<kButterfly>;
  else if (l.Take("idx"))
    run = &Shuffle<kIndex>;
  const Type t = l.TakeType();
  if (run == nullptr || t.size_bytes != 4) return l.Unknown();
  const Operand& result = l.operand(0);
  const bool pair = result.kind == Operand::kPair;
  const uint32_t a = l.Source(1, kB32), b = l.Source(2, kU32), c = l.Source(3, kU32),
                 members = sync ? l.Source(4, kU32) : kNoSlot;
  const uint32_t d = l.Destination(pair ? result.elements[0] : result, kB32);
  const uint32_t extra = pair ? l.Extra({l.Destination(result.elements[1], kPred)}) + 1 : 0;
  Inst& inst = l.Emit(run, sync ? InstKind::kWarpSync : InstKind::kPlain);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.src[3] = members;
  inst.extra = extra;
}

struct ReduceAdd {
  template <class T>
  static T Run(T a, T b) {
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct ReduceMin {
  template <class T>
  static T Run(T a, T b) {
    return b < a ? b : a;
  }
};
struct ReduceMax {
  template <class T>
  static T Run(T a, T b) {
    return b > a ? b : a;
  }
};
struct ReduceAnd {
  template <class T>
  static T Run(T a, T b) {
    return a & b;
  }
};
struct ReduceOr {
  template <class T>
  static T Run(T a, T b) {
    return a | b;
  }
};
struct ReduceXor {
  template <class T>
  static T Run(T a, T b) {
    return a ^ b;
  }
};
template <class F, class T>
void Reduce(Warp& w, const Inst& inst, uint32_t mask) {
  T values[kLaneCount];
  std::memcpy(values, w.Slot<T>(inst.src[0]), sizeof(values));
  T* d = w.Slot<T>(inst.dst);
  ForGroups(w, inst, mask, [&](uint32_t group, uint32_t participants) {
    T total = values[std::countr_zero(participants)];
    for (uint32_t rest = participants & (participants - 1); rest != 0; rest &= rest - 1)
      total = F::Run(total, values[std::countr_zero(rest)]);
    ForLanes(group, [&](uint32_t l) { d[l] = total; });
  });
}
void LowerRedux(Lowering& l) {
  if (!l.Take("sync")) return l.Unknown();
  const bool add = l.Take("add"), min = l.Take("min"), max = l.Take("max"), both = l.Take("and"), either = l.Take("or"),
             exclusive = l.Take("xor");
  const Type t = l.TakeType();
  if (t.size_bytes != 4 || !t.IsInteger()) return l.Unknown();
  Handler run = nullptr;
  if (add) run = &Reduce<ReduceAdd, uint32_t>;
  if (min) run = t.IsSigned() ? &Reduce<ReduceMin, int32_t> : &Reduce<ReduceMin, uint32_t>;
  if (max) run = t.IsSigned() ? &Reduce<ReduceMax, int32_t> : &Reduce<ReduceMax, uint32_t>;
  if (both) run = &Reduce<ReduceAnd, uint32_t>;
  if (either) run = &Reduce<ReduceOr, uint32_t>;
  if (exclusive) run = &Reduce<ReduceXor, uint32_t>;
  if (run == nullptr) return l.Unknown();
  const uint32_t a = l.Source(1, t), members = l.Source(2, kU32), d = l.Destination(0, t);
  Inst& inst = l.Emit(run, InstKind::kWarpSync);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[3] = members;
}

void Elect(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  uint32_t elected = 0;
  ForGroups(w, inst, mask, [&](uint32_t group, uint32_t participants) {
    const auto leader = static_cast<uint32_t>(std::countr_zero(participants));
    ForLanes(group, [&](uint32_t l) { d[l] = leader; });
    elected |= 1u << leader;
  });
  WriteBits(w, inst.src[1], elected, mask);
}
void LowerElect(Lowering& l) {
  const Operand& result = l.operand(0);
  if (!l.Take("sync") || result.kind != Operand::kPair) return l.Unknown();
  const uint32_t members = l.Source(1, kU32), d = l.Destination(result.elements[0], kB32),
                 p = l.Destination(result.elements[1], kPred);
  Inst& inst = l.Emit(&Elect, InstKind::kWarpSync);
  inst.dst = d;
  inst.src[1] = p;
  inst.src[3] = members;
}

constexpr OpRow kRows[] = {
    {"vote", kAnyType, LowerVote},    {"activemask", kAnyType, LowerActiveMask}, {"match", kAnyType, LowerMatch},
    {"shfl", kAnyType, LowerShuffle}, {"redux", kAnyType, LowerRedux},           {"elect", kAnyType, LowerElect},
};

}  // namespace

std::span<const OpRow> WarpOps() { return kRows; }

}  // namespace tessera::emulator
