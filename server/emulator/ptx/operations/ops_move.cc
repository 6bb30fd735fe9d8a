// mov with packing and unpacking, cvta, isspacep, special registers. Source: PTX ISA 9.0, "Data Movement and Conversion".
#include <fmt/core.h>

#include "server/emulator/ptx/lower/emit.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

template <class T>
struct Copy {
  static T Run(T a) { return a; }
};
struct Wide128 {
  uint64_t low, high;
};

void CopyPredicate(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t& d = *w.Slot<uint32_t>(inst.dst);
  d = (d & ~mask) | (*w.Slot<uint32_t>(inst.src[0]) & mask);
}

Handler PickCopy(uint32_t bytes) {
  switch (bytes) {
    case 1: return &Unary<Copy<uint8_t>, uint8_t, uint8_t>;
    case 2: return &Unary<Copy<uint16_t>, uint16_t, uint16_t>;
    case 4: return &Unary<Copy<uint32_t>, uint32_t, uint32_t>;
    case 8: return &Unary<Copy<uint64_t>, uint64_t, uint64_t>;
    default: return &Unary<Copy<Wide128>, Wide128, Wide128>;
  }
}

// imm elements of E make one value of sizeof(E) * imm bytes per lane.
template <class E>
void Pack(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t* elements = w.Extra(inst);
  const size_t count = inst.imm;
  for (size_t i = 0; i < count; ++i) {
    E* d = w.Slot<E>(inst.dst) + i;
    const E* a = w.Slot<E>(elements[i]);
    ForLanes(mask, [&](uint32_t l) { d[l * count] = a[l]; });
  }
}
template <class E>
void Unpack(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t* elements = w.Extra(inst);
  const size_t count = inst.imm;
  for (size_t i = 0; i < count; ++i) {
    E* d = w.Slot<E>(elements[i]);
    const E* a = w.Slot<E>(inst.src[0]) + i;
    ForLanes(mask, [&](uint32_t l) { d[l] = a[l * count]; });
  }
}

template <bool kPack>
Handler PickPack(size_t element_bytes) {
  switch (element_bytes) {
    case 1: return kPack ? &Pack<uint8_t> : &Unpack<uint8_t>;
    case 2: return kPack ? &Pack<uint16_t> : &Unpack<uint16_t>;
    case 4: return kPack ? &Pack<uint32_t> : &Unpack<uint32_t>;
    case 8: return kPack ? &Pack<uint64_t> : &Unpack<uint64_t>;
    default: return nullptr;
  }
}

void LowerMov(Lowering& l) {
  const Type t = l.TakeType();
  if (t.IsPredicate()) {
    const uint32_t a = l.Predicate(1), d = l.Destination(0, t);
    Inst& inst = l.Emit(&CopyPredicate);
    inst.dst = d;
    inst.src[0] = a;
    return;
  }
  const Operand& result = l.operand(0);
  const Operand& source = l.operand(1);
  if (source.kind == Operand::kVector || result.kind == Operand::kVector) {
    const bool pack = source.kind == Operand::kVector;
    const Operand& vector = pack ? source : result;
    const size_t count = vector.elements.size();
    if (count < 2 || (pack && result.kind == Operand::kVector)) return l.Unknown();
    const size_t bytes = t.size_bytes / count;
    Handler run = pack ? PickPack<true>(bytes) : PickPack<false>(bytes);
    if (run == nullptr || bytes * count != t.size_bytes) return l.Unknown();
    const Type element{TypeClass::kBits, static_cast<uint8_t>(bytes)};
    std::vector<uint32_t> slots;
    const uint32_t a = pack ? 0 : l.Source(source, t);
    for (const Operand& each : vector.elements) slots.push_back(pack ? l.Source(each, element) : l.Destination(each, element));
    // Unpacking into the register that is read would lose what is still to come.
    uint32_t from = a;
    if (!pack) {
      from = l.Temporary(t.size_bytes);
      Inst& copy = l.Emit(PickCopy(t.size_bytes));
      copy.dst = from;
      copy.src[0] = a;
    }
    const uint32_t d = pack ? l.Temporary(t.size_bytes) : kNoSlot;
    const uint32_t extra = l.Extra(slots);
    Inst& inst = l.Emit(run);
    inst.dst = d;
    inst.src[0] = from;
    inst.imm = count;
    inst.extra = extra;
    if (pack) {
      const uint32_t target = l.Destination(result, t);
      Inst& copy = l.Emit(PickCopy(t.size_bytes));
      copy.dst = target;
      copy.src[0] = d;
    }
    return;
  }
  EmitUnary(l, PickCopy(t.size_bytes), t, t);
}

template <uint64_t kWindow>
struct ToGeneric {
  static uint64_t Run(uint64_t a) { return a | kWindow; }
};
struct FromGeneric {
  static uint64_t Run(uint64_t a) { return a & ~kWindowMask; }
};

void LowerCvta(Lowering& l) {
  const bool to = l.Take("to");
  const bool shared = l.Take("shared") || l.Take("shared::cta") || l.Take("shared::cluster");
  const bool local = l.Take("local");
  const bool flat = l.Take("global") || l.Take("const") || l.Take("param") || l.Take("param::entry");
  const Type t = l.TakeType();
  if (shared + local + flat != 1 || t.size_bytes != 8) return l.Unknown();
  if (flat) return EmitUnary(l, PickCopy(8), t, t);
  Handler run = to       ? &Unary<FromGeneric, uint64_t, uint64_t>
                : shared ? &Unary<ToGeneric<kSharedWindow>, uint64_t, uint64_t>
                         : &Unary<ToGeneric<kLocalWindow>, uint64_t, uint64_t>;
  EmitUnary(l, run, t, t);
}

template <int kSpace>  // 0 global, 1 shared, 2 local, 3 param, 4 const
void IsSpace(Warp& w, const Inst& inst, uint32_t mask) {
  const uint64_t* a = w.Slot<uint64_t>(inst.src[0]);
  const auto parameters = reinterpret_cast<uint64_t>(w.grid().parameters.data());
  const uint64_t parameters_end = parameters + w.grid().parameters.size();
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLaneCount; ++l) {
    const uint64_t window = a[l] & kWindowMask;
    const bool is_param = a[l] >= parameters && a[l] < parameters_end;
    const bool yes = kSpace == 0   ? window == 0 && !is_param
                     : kSpace == 1 ? window == kSharedWindow
                     : kSpace == 2 ? window == kLocalWindow
                     : kSpace == 3 ? is_param
                                   : false;
    bits |= static_cast<uint32_t>(yes) << l;
  }
  uint32_t& d = *w.Slot<uint32_t>(inst.dst);
  d = (d & ~mask) | (bits & mask);
}
void LowerIsSpace(Lowering& l) {
  Handler run = nullptr;
  if (l.Take("global"))
    run = &IsSpace<0>;
  else if (l.Take("shared") || l.Take("shared::cta") || l.Take("shared::cluster"))
    run = &IsSpace<1>;
  else if (l.Take("local"))
    run = &IsSpace<2>;
  else if (l.Take("param") || l.Take("param::entry"))
    run = &IsSpace<3>;
  if (run == nullptr) return l.Unknown();
  EmitUnary(l, run, kPred, kB64);
}

// mapa: an address of this block's shared memory seen from a block of the cluster, which is always this block.
void LowerMapa(Lowering& l) {
  const bool shared = l.Take("shared::cluster");
  const Type t = l.TakeType();
  (void)shared;
  EmitUnary(l, PickCopy(t.size_bytes), t, t);
}

constexpr OpRow kRows[] = {
    {"mov", kAnyType, LowerMov},
    {"cvta", kAnyType, LowerCvta},
    {"isspacep", kAnyType, LowerIsSpace},
    {"mapa", kAnyType, LowerMapa},
};

}  // namespace

std::span<const OpRow> MoveOps() { return kRows; }

}  // namespace tessera::emulator
