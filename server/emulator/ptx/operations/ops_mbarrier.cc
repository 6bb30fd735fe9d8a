// mbarrier objects and the asynchronous copies that complete on them. Source: PTX ISA 9.0, "Parallel Synchronization and
// Communication Instructions: mbarrier", "cp.async.bulk".
//
// A block's shared memory is touched by one thread only, so an object is a plain word. Copies are done at once: what remains
// of them is their arrival.
#include <fmt/core.h>

#include <array>

#include "server/emulator/ptx/operations/memory.h"

namespace tessera::emulator {
namespace {

constexpr uint64_t kCountMax = (1 << 20) - 1;
constexpr uint32_t kCopyUnitBytes = 16;

// What an object holds: arrivals that are missing, arrivals of a whole phase, bytes that are expected (which may be below zero
// for a while), and whether the phase is an odd one.
struct Barrier {
  uint32_t missing = 0, expected = 0;
  int32_t bytes = 0;
  bool odd = false;

  static Barrier Of(uint64_t word) {
    Barrier b;
    b.missing = static_cast<uint32_t>(word & kCountMax);
    b.expected = static_cast<uint32_t>(word >> 20 & kCountMax);
    b.bytes = static_cast<int32_t>(static_cast<uint32_t>(word >> 40 & 0x3f'ffff) << 10) >> 10;
    b.odd = word >> 63 != 0;
    return b;
  }
  uint64_t Word() const {
    return missing | uint64_t{expected} << 20 | uint64_t{static_cast<uint32_t>(bytes) & 0x3f'ffff} << 40 | uint64_t{odd} << 63;
  }
  void Finish() {
    if (missing != 0 || bytes != 0) return;
    missing = expected;
    odd = !odd;
  }
};

Barrier Read(const uint8_t* place) {
  uint64_t word;
  std::memcpy(&word, place, sizeof(word));
  return Barrier::Of(word);
}
void Write(uint8_t* place, const Barrier& barrier) {
  const uint64_t word = barrier.Word();
  std::memcpy(place, &word, sizeof(word));
}

// Operands: object [0], number [1] (kNoSlot: 1), state dst. `change` gets the object and the lane's number; true: well used.
template <MemorySpace kSpace, bool k32Bit, class Change>
void ForObjects(Warp& w, const Inst& inst, uint32_t mask, Change change) {
  alignas(64) uint8_t* p[kLaneCount];
  if (!Translate<kSpace, k32Bit>(w, inst, mask, sizeof(uint64_t), true, p)) return;
  // A copy: the states may be written where the numbers are.
  std::array<uint32_t, kLaneCount> numbers;
  numbers.fill(1);
  if (inst.src[1] != kNoSlot) std::memcpy(numbers.data(), w.Slot<uint32_t>(inst.src[1]), sizeof(numbers));
  uint64_t* states = inst.dst == kNoSlot ? nullptr : w.Slot<uint64_t>(inst.dst);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    Barrier barrier = Read(p[lane]);
    const uint64_t before = barrier.Word();
    if (!change(barrier, numbers[lane])) {
      return w.Fault(LaunchError::kIllegalInstruction, inst,
                     fmt::format("a count of {} for an mbarrier of which {} of {} arrivals are missing", numbers[lane],
                                 barrier.missing, barrier.expected));
    }
    Write(p[lane], barrier);
    if (states != nullptr) states[lane] = before;
  }
}

struct InitOf {
  static bool Change(Barrier& b, uint32_t count) {
    b = Barrier{count, count, 0, false};
    return count != 0 && count <= kCountMax;
  }
};
struct ArriveOf {
  static bool Change(Barrier& b, uint32_t count) {
    if (count == 0 || count > b.missing) return false;
    b.missing -= count;
    b.Finish();
    return true;
  }
};
struct DropOf {
  static bool Change(Barrier& b, uint32_t count) {
    if (count > b.expected) return false;
    b.expected -= count;
    return ArriveOf::Change(b, count);
  }
};
struct ExpectOf {
  static bool Change(Barrier& b, uint32_t bytes) {
    b.bytes += static_cast<int32_t>(bytes);
    return true;
  }
};
struct CompleteOf {
  static bool Change(Barrier& b, uint32_t bytes) {
    b.bytes -= static_cast<int32_t>(bytes);
    b.Finish();
    return true;
  }
};
struct ArriveExpectingOf {
  static bool Change(Barrier& b, uint32_t bytes) { return ExpectOf::Change(b, bytes) && ArriveOf::Change(b, 1); }
};

template <class Operation>
struct ObjectsOf {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) { ForObjects<kSpace, k32Bit>(w, inst, mask, Operation::Change); }
  };
};

// Whether the phase that a state [1] was taken in, or that has a parity [1] (inst.small), is over.
template <MemorySpace kSpace, bool k32Bit>
struct TestWait {
  static void Run(Warp& w, const Inst& inst, uint32_t mask) {
    alignas(64) uint8_t* p[kLaneCount];
    if (!Translate<kSpace, k32Bit>(w, inst, mask, sizeof(uint64_t), false, p)) return;
    uint32_t over = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      const bool asked =
          inst.small != 0 ? (w.Slot<uint32_t>(inst.src[1])[lane] & 1) != 0 : Barrier::Of(w.Slot<uint64_t>(inst.src[1])[lane]).odd;
      if (Read(p[lane]).odd != asked) over |= 1u << lane;
    }
    WriteBits(w, inst.dst, over, mask);
  }
};

void PendingCount(Warp& w, const Inst& inst, uint32_t mask) {
  const uint64_t* states = w.Slot<uint64_t>(inst.src[0]);
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    d[lane] = Barrier::Of(states[lane]).missing;
  }
}

void DoNothing(Warp&, const Inst&, uint32_t) {}

// The object that operand `at` names, and the instruction's handler for its space.
template <template <MemorySpace, bool> class H>
Inst& EmitFor(Lowering& l, size_t at, Space space) {
  const Address address = l.AddressOf(at, space);
  MemorySpace in = MemorySpace::kGeneric;
  SpaceOf(l, space, &in);
  Inst& inst = l.Emit(PickSpace<H>(in, address.is_32bit));
  inst.dst = kNoSlot;
  inst.src[0] = address.slot;
  inst.src[1] = kNoSlot;
  inst.imm = static_cast<uint64_t>(address.offset);
  return inst;
}

template <class Operation>
void LowerChange(Lowering& l, Space space, bool has_state) {
  const size_t at = has_state ? 1 : 0;
  const uint32_t state = has_state ? l.Destination(0, kB64) : kNoSlot;
  const uint32_t number = l.count() > at + 1 ? l.Source(at + 1, kU32) : kNoSlot;
  Inst& inst = EmitFor<ObjectsOf<Operation>::template In>(l, at, space);
  inst.dst = state;
  inst.src[1] = number;
}

void LowerWait(Lowering& l, Space space) {
  const bool parity = l.Take("parity");
  l.Emit(nullptr, InstKind::kYield);  // those that are to arrive go first; a time limit [3] is only a hint
  const uint32_t p = l.Destination(0, kPred), asked = parity ? l.Source(2, kU32) : l.Source(2, kB64);
  Inst& inst = EmitFor<TestWait>(l, 1, space);
  inst.dst = p;
  inst.src[1] = asked;
  inst.small = parity ? 1 : 0;
}

void LowerMbarrier(Lowering& l) {
  const AccessModifiers access = TakeAccessModifiers(l);
  l.TakeType();
  if (access.space != Space::kShared && access.space != Space::kGeneric) return l.Unknown();
  if (l.Take("init")) return LowerChange<InitOf>(l, access.space, false);
  if (l.Take("inval")) return (void)l.Emit(&DoNothing);
  if (l.Take("arrive")) {
    if (l.Take("expect_tx")) return LowerChange<ArriveExpectingOf>(l, access.space, true);
    l.Take("noComplete");
    return LowerChange<ArriveOf>(l, access.space, true);
  }
  if (l.Take("arrive_drop")) {
    l.Take("noComplete");
    return LowerChange<DropOf>(l, access.space, true);
  }
  if (l.Take("expect_tx")) return LowerChange<ExpectOf>(l, access.space, false);
  if (l.Take("complete_tx")) return LowerChange<CompleteOf>(l, access.space, false);
  if (l.Take("test_wait") || l.Take("try_wait")) return LowerWait(l, access.space);
  if (l.Take("pending_count")) {
    const uint32_t state = l.Source(1, kB64), d = l.Destination(0, kU32);
    Inst& inst = l.Emit(&PendingCount);
    inst.dst = d;
    inst.src[0] = state;
    return;
  }
  l.Unknown();
}

// cp.async.bulk from global to the block's shared memory: to [0], from [1], bytes [2], object [3], all of lanes.
void CopyBulk(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t slots[2];
  std::memcpy(slots, w.Extra(inst), sizeof(slots));
  const uint32_t* to = w.Slot<uint32_t>(inst.src[0]);
  const uint64_t* from = w.Slot<uint64_t>(inst.src[1]);
  const uint32_t* sizes = w.Slot<uint32_t>(slots[0]);
  const uint32_t* objects = w.Slot<uint32_t>(slots[1]);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint32_t only = 1u << lane;
    alignas(64) uint64_t addresses[kLaneCount] = {};
    alignas(64) uint8_t *target[kLaneCount], *source[kLaneCount], *object[kLaneCount];
    if (sizes[lane] % kCopyUnitBytes != 0) {
      return w.Fault(LaunchError::kMisalignedAddress, inst,
                     fmt::format("a bulk copy of {} bytes, no multiple of {}", sizes[lane], kCopyUnitBytes));
    }
    for (uint32_t done = 0; done < sizes[lane]; done += kCopyUnitBytes) {
      addresses[lane] = to[lane] + done;
      if (!TranslateSlow(w, inst, only, addresses, MemorySpace::kShared, kCopyUnitBytes, true, target)) return;
      addresses[lane] = from[lane] + done;
      if (!TranslateSlow(w, inst, only, addresses, MemorySpace::kGeneric, kCopyUnitBytes, false, source)) return;
      std::memcpy(target[lane], source[lane], kCopyUnitBytes);
    }
    addresses[lane] = objects[lane];
    if (!TranslateSlow(w, inst, only, addresses, MemorySpace::kShared, sizeof(uint64_t), true, object)) return;
    Barrier barrier = Read(object[lane]);
    CompleteOf::Change(barrier, sizes[lane]);
    Write(object[lane], barrier);
  }
}

}  // namespace

// What is behind "cp.async": ".mbarrier.arrive" and ".bulk" from global to shared memory. False: not of this file.
bool LowerAsyncCopyOnBarrier(Lowering& l) {
  if (l.Take("mbarrier")) {
    if (!l.Take("arrive")) return false;
    const bool counted = l.Take("noinc");
    const AccessModifiers access = TakeAccessModifiers(l);
    l.TakeType();
    // Without noinc the arrival is one more than the object expects: nothing is left of both.
    if (!counted) return l.Emit(&DoNothing), true;
    return LowerChange<ArriveOf>(l, access.space, false), true;
  }
  if (!l.Take("bulk") || !l.Take("mbarrier::complete_tx::bytes")) return false;
  const bool into = l.Take("shared::cluster") || l.Take("shared::cta");
  if (!into || !l.Take("global") || l.count() != 4) return false;
  const Address to = l.AddressOf(0, Space::kShared), from = l.AddressOf(1, Space::kGlobal),
                object = l.AddressOf(3, Space::kShared);
  if (!to.is_32bit || from.is_32bit || !object.is_32bit || to.offset != 0 || from.offset != 0 || object.offset != 0) return false;
  const uint32_t size = l.Source(2, kU32);
  const uint32_t extra = l.Extra({size, object.slot});
  Inst& inst = l.Emit(&CopyBulk);
  inst.src[0] = to.slot;
  inst.src[1] = from.slot;
  inst.extra = extra;
  return true;
}

namespace {
constexpr OpRow kRows[] = {{"mbarrier", kAnyType, LowerMbarrier}};
}

std::span<const OpRow> MbarrierOps() { return kRows; }

}  // namespace tessera::emulator
