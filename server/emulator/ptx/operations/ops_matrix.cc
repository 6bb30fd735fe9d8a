// Matrix instructions of a warp. Source: PTX ISA 9.0, "Warp Level Matrix Multiply-Accumulate Instructions".
//
// The sums of mma and wmma over f16, bf16 and tf32 are rounded once; a device truncates in between, in an order that is not
// documented, so its results may differ from these in the last bits.
#include "server/emulator/ptx/operations/matrix.h"
#include "server/emulator/ptx/operations/memory.h"

namespace tessera::emulator {
namespace {

// m, n and k of a modifier like "m16n8k16".
struct ProductShape {
  uint32_t m = 0, n = 0, k = 0;
};
bool ParseShape(std::string_view word, ProductShape* shape) {
  uint32_t* parts[] = {&shape->m, &shape->n, &shape->k};
  size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    if (at >= word.size() || word[at] != "mnk"[i]) return false;
    for (++at; at < word.size() && word[at] >= '0' && word[at] <= '9' && *parts[i] < 1000; ++at) {
      *parts[i] = *parts[i] * 10 + static_cast<uint32_t>(word[at] - '0');
    }
  }
  return at == word.size();
}

// The instruction after all lanes of the warp have come to it.
Inst& EmitWarpWide(Lowering& l, Handler run) {
  Inst& inst = l.Emit(run, InstKind::kWarpSync);
  inst.src[3] = l.Constant(4, kAllLanes);
  return inst;
}

// --- mma, wmma.mma ---

// Extra: whether integers saturate, then the fragments a, b, c, d.
void Multiply(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t* words = w.Extra(inst);
  const bool saturate = *words++ != 0;
  const uint32_t *a_slots, *b_slots, *c_slots, *d_slots;
  const FragmentShape a_shape = ReadFragment(&words, &a_slots), b_shape = ReadFragment(&words, &b_slots);
  const FragmentShape c_shape = ReadFragment(&words, &c_slots), d_shape = ReadFragment(&words, &d_slots);
  Matrix a, b, c, d;
  Gather(w, a_slots, a_shape, &a);
  Gather(w, b_slots, b_shape, &b);
  Gather(w, c_slots, c_shape, &c);
  MultiplyAdd(a, b, c, d_shape.rows, d_shape.columns, a_shape.columns, d_shape.format, saturate, &d);
  Scatter(w, d_slots, d_shape, mask, d);
}

void EmitMultiply(Lowering& l, bool saturate, const FragmentShape& a, const FragmentShape& b, const FragmentShape& c,
                  const FragmentShape& d) {
  std::vector<uint32_t> words = {saturate ? 1u : 0u};
  AppendFragment(a, Elements(l, l.operand(1), RegisterTypeOf(a.format), a.registers, false), &words);
  AppendFragment(b, Elements(l, l.operand(2), RegisterTypeOf(b.format), b.registers, false), &words);
  AppendFragment(c, Elements(l, l.operand(3), RegisterTypeOf(c.format), c.registers, false), &words);
  AppendFragment(d, Elements(l, l.operand(0), RegisterTypeOf(d.format), d.registers, true), &words);
  if (l.failed()) return;
  const uint32_t extra = l.Extra(words);
  EmitWarpWide(l, &Multiply).extra = extra;
}

bool IsInteger8(ElementFormat f) { return f == ElementFormat::kS8 || f == ElementFormat::kU8; }

// Which results a product of these factors may have.
bool ResultAllowed(ElementFormat factor, ElementFormat result) {
  switch (factor) {
    case ElementFormat::kF16: return result == ElementFormat::kF16 || result == ElementFormat::kF32;
    case ElementFormat::kBf16:
    case ElementFormat::kTf32: return result == ElementFormat::kF32;
    case ElementFormat::kF64: return result == ElementFormat::kF64;
    case ElementFormat::kS8:
    case ElementFormat::kU8: return result == ElementFormat::kS32;
    default: return false;
  }
}

bool MmaShapeExists(ElementFormat factor, const ProductShape& s) {
  if (s.n != 8 || (s.m != 8 && s.m != 16)) return false;
  switch (factor) {
    case ElementFormat::kF16:  // m8n8k4 distributes differently and is slow on every device that is not Volta
    case ElementFormat::kBf16: return s.m == 16 && (s.k == 8 || s.k == 16);
    case ElementFormat::kTf32: return s.m == 16 && (s.k == 4 || s.k == 8);
    case ElementFormat::kF64: return s.m == 8 ? s.k == 4 : s.k == 4 || s.k == 8 || s.k == 16;
    default: return s.m == 8 ? s.k == 16 : s.k == 16 || s.k == 32;
  }
}

FragmentShape MmaFragment(FragmentKind kind, ElementFormat format, uint32_t rows, uint32_t columns) {
  return {kind, format, rows, columns, rows * columns / kLaneCount / ElementsPerRegister(format)};
}

void LowerMma(Lowering& l) {
  ProductShape s;
  if (!l.Take("sync") || !l.Take("aligned") || !ParseShape(l.TakeFirst(), &s) || !l.Take("row") || !l.Take("col"))
    return l.Unknown();
  const bool saturate = l.Take("satfinite");
  ElementFormat d, a, b, c;
  for (ElementFormat* format : {&d, &a, &b, &c}) {
    if (!ParseElementFormat(l.TakeFirst(), format)) return l.Unknown();
  }
  const bool factors_fit = a == b || (IsInteger8(a) && IsInteger8(b));
  if (!factors_fit || !MmaShapeExists(a, s) || !ResultAllowed(a, c) || !ResultAllowed(a, d) || (saturate && !IsInteger8(a)))
    return l.Unknown();
  EmitMultiply(l, saturate, MmaFragment(FragmentKind::kMmaA, a, s.m, s.k), MmaFragment(FragmentKind::kMmaB, b, s.k, s.n),
               MmaFragment(FragmentKind::kMmaC, c, s.m, s.n), MmaFragment(FragmentKind::kMmaC, d, s.m, s.n));
}

// --- wmma ---

bool WmmaShapeExists(ElementFormat factor, const ProductShape& s) {
  switch (factor) {
    case ElementFormat::kF32:
    case ElementFormat::kS32: return false;
    case ElementFormat::kTf32: return s.m == 16 && s.n == 16 && s.k == 8;
    case ElementFormat::kF64: return s.m == 8 && s.n == 8 && s.k == 4;
    default: return s.k == 16 && s.m * s.n == 256 && (s.m == 16 || s.m == 32 || s.m == 8);
  }
}

// Whether some factors of that shape give such a result.
bool WmmaResultExists(ElementFormat result, const ProductShape& s) {
  for (const ElementFormat factor : {ElementFormat::kF16, ElementFormat::kTf32, ElementFormat::kF64, ElementFormat::kS8}) {
    if (WmmaShapeExists(factor, s) && ResultAllowed(factor, result)) return true;
  }
  return false;
}

// As many registers as the ISA says: f16 factors have twice what they need when the matrix is square, others just enough.
FragmentShape WmmaFragment(char which, ElementFormat format, const ProductShape& s) {
  const uint32_t rows = which == 'b' ? s.k : s.m, columns = which == 'a' ? s.k : s.n;
  uint32_t registers = rows * columns / kLaneCount / ElementsPerRegister(format);
  if (format == ElementFormat::kF16 && (which == 'a' || which == 'b')) registers = 8;
  return {FragmentKind::kLinear, format, rows, columns, registers};
}

// Addresses of one element of each lane; Extra: whether columns are contiguous, then the fragment. src[1]: stride or none.
template <bool kStore>
struct MoveFragment {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) {
      const uint32_t* words = w.Extra(inst);
      const bool column_major = *words++ != 0;
      const uint32_t* slots;
      const FragmentShape shape = ReadFragment(&words, &slots);
      const uint32_t size = ElementBytes(shape.format);
      const uint32_t* strides = inst.src[1] == kNoSlot ? nullptr : w.Slot<uint32_t>(inst.src[1]);
      for (uint32_t i = 0; i < shape.elements(); ++i) {
        uint64_t addresses[kLaneCount] = {};
        for (uint32_t l = 0; l < kLaneCount; ++l) {
          const Position at = shape.At(l, i);
          const uint64_t stride = strides != nullptr ? strides[l] : column_major ? shape.rows : shape.columns;
          const uint64_t index = column_major ? at.column * stride + at.row : at.row * stride + at.column;
          const uint64_t base = k32Bit ? w.Slot<uint32_t>(inst.src[0])[l] : w.Slot<uint64_t>(inst.src[0])[l];
          addresses[l] = base + inst.imm + index * size;
          if (k32Bit) addresses[l] = static_cast<uint32_t>(addresses[l]);
        }
        uint8_t* places[kLaneCount];
        if (!TranslateSlow(w, inst, mask, addresses, kSpace, size, kStore, places)) return;
        const uint32_t each = ElementsPerRegister(shape.format);
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
          const auto l = static_cast<uint32_t>(std::countr_zero(rest));
          auto* registers = w.Slot<uint8_t>(slots[i / each]) + l * size * each + i % each * size;
          std::memcpy(kStore ? places[l] : registers, kStore ? registers : places[l], size);
        }
      }
    }
  };
};

void LowerWmmaMove(Lowering& l, bool store) {
  const char which = l.Take("a") ? 'a' : l.Take("b") ? 'b' : l.Take(store ? "d" : "c") ? 'c' : 0;
  if (which == 0 || (store && which != 'c') || !l.Take("sync") || !l.Take("aligned")) return l.Unknown();
  const bool row = l.Take("row"), column = l.Take("col");
  ProductShape s;
  if (row == column || !ParseShape(l.TakeFirst(), &s)) return l.Unknown();
  const AccessModifiers access = TakeAccessModifiers(l);
  ElementFormat format;
  if (!ParseElementFormat(l.TakeFirst(), &format)) return l.Unknown();
  if (!(which == 'c' ? WmmaResultExists(format, s) : WmmaShapeExists(format, s))) return l.Unknown();
  const FragmentShape shape = WmmaFragment(which, format, s);
  MemorySpace space;
  if (!SpaceOf(l, access.space, &space)) return l.Unknown();
  const Address address = l.AddressOf(store ? 0 : 1, access.space);
  const uint32_t stride = l.count() > 2 ? l.Source(2, kU32) : kNoSlot;
  std::vector<uint32_t> words = {column ? 1u : 0u};
  AppendFragment(shape, Elements(l, l.operand(store ? 1 : 0), RegisterTypeOf(format), shape.registers, !store), &words);
  if (l.failed()) return;
  const uint32_t extra = l.Extra(words);
  const Handler run = store ? PickSpace<MoveFragment<true>::In>(space, address.is_32bit)
                            : PickSpace<MoveFragment<false>::In>(space, address.is_32bit);
  Inst& inst = EmitWarpWide(l, run);
  inst.src[0] = address.slot;
  inst.src[1] = stride;
  inst.imm = static_cast<uint64_t>(address.offset);
  inst.extra = extra;
}

void LowerWmma(Lowering& l) {
  if (l.Take("load")) return LowerWmmaMove(l, false);
  if (l.Take("store")) return LowerWmmaMove(l, true);
  // Fragments hold the same elements for either layout in memory, so layouts mean nothing here.
  if (!l.Take("mma") || !l.Take("sync") || !l.Take("aligned")) return l.Unknown();
  for (int factor = 0; factor < 2; ++factor) {
    if (const std::string_view layout = l.TakeFirst(); layout != "row" && layout != "col") return l.Unknown();
  }
  ProductShape s;
  if (!ParseShape(l.TakeFirst(), &s)) return l.Unknown();
  l.Take("rn");  // of f64: the default
  const bool saturate = l.Take("satfinite");
  std::vector<ElementFormat> formats;
  ElementFormat each;
  for (std::string_view word = l.TakeFirst(); !word.empty(); word = l.TakeFirst()) {
    if (!ParseElementFormat(word, &each)) return l.Unknown();
    formats.push_back(each);
  }
  // With two formats they are those of d and c, and the factors are f16.
  if (formats.size() == 2) formats = {formats[0], ElementFormat::kF16, ElementFormat::kF16, formats[1]};
  if (formats.size() != 4) return l.Unknown();
  const ElementFormat d = formats[0], a = formats[1], b = formats[2], c = formats[3];
  if (a != b || !WmmaShapeExists(a, s) || !ResultAllowed(a, c) || !ResultAllowed(a, d) || (saturate && !IsInteger8(a)))
    return l.Unknown();
  EmitMultiply(l, saturate, WmmaFragment('a', a, s), WmmaFragment('b', b, s), WmmaFragment('c', c, s), WmmaFragment('c', d, s));
}

// --- ldmatrix, stmatrix, movmatrix: 8 by 8 elements of 16 bits, rows of 16 bytes whose addresses are given by one lane each ---

// A lane's share of such a matrix: two neighbours of a row, or of a column when transposed.
struct Pair {
  Position first, second;
};
Pair PairOf(uint32_t lane, bool transposed) {
  const uint32_t long_way = lane / 4, short_way = lane % 4 * 2;
  if (transposed) return {{short_way, long_way}, {short_way + 1, long_way}};
  return {{long_way, short_way}, {long_way, short_way + 1}};
}

// Extra: the registers, one per matrix. small: their number, and 8 when transposed.
template <bool kStore>
struct MoveRows {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) {
      const uint32_t count = inst.small & 7;
      const bool transposed = (inst.small & 8) != 0;
      const uint32_t named = count == 4 ? kAllLanes : (1u << 8 * count) - 1;  // the lanes whose addresses count
      alignas(64) uint8_t* rows[kLaneCount];
      if (!Translate<kSpace, k32Bit>(w, inst, mask & named, 16, kStore, rows)) return;
      for (uint32_t i = 0; i < count; ++i) {
        auto* registers = w.Slot<uint16_t>(w.Extra(inst)[i]);
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
          const auto l = static_cast<uint32_t>(std::countr_zero(rest));
          const Pair pair = PairOf(l, transposed);
          uint16_t* own = registers + 2 * l;
          for (const Position& at : {pair.first, pair.second}) {
            const uint32_t giver = 8 * i + at.row;
            if ((mask >> giver & 1) == 0) continue;  // its lane has left the kernel
            uint8_t* place = rows[giver] + 2 * at.column;
            std::memcpy(kStore ? place : reinterpret_cast<uint8_t*>(own), kStore ? reinterpret_cast<uint8_t*>(own) : place, 2);
            ++own;
          }
        }
      }
    }
  };
};

template <bool kStore>
void LowerMoveRows(Lowering& l) {
  if (!l.Take("sync") || !l.Take("aligned") || !l.Take("m8n8")) return l.Unknown();
  const uint32_t count = l.Take("x1") ? 1 : l.Take("x2") ? 2 : l.Take("x4") ? 4 : 0;
  const bool transposed = l.Take("trans");
  const AccessModifiers access = TakeAccessModifiers(l);
  if (count == 0 || !l.Take("b16") || (access.space != Space::kShared && access.space != Space::kGeneric)) return l.Unknown();
  MemorySpace space;
  if (!SpaceOf(l, access.space, &space)) return l.Unknown();
  const Address address = l.AddressOf(kStore ? 0 : 1, access.space);
  const std::vector<uint32_t> registers = Elements(l, l.operand(kStore ? 1 : 0), kB32, count, !kStore);
  if (l.failed()) return;
  const uint32_t extra = l.Extra(registers);
  Inst& inst = EmitWarpWide(l, PickSpace<MoveRows<kStore>::template In>(space, address.is_32bit));
  inst.src[0] = address.slot;
  inst.imm = static_cast<uint64_t>(address.offset);
  inst.extra = extra;
  inst.small = static_cast<uint8_t>(count | (transposed ? 8 : 0));
}

void Transpose(Warp& w, const Inst& inst, uint32_t mask) {
  uint16_t matrix[8][8];
  const auto* from = w.Slot<uint16_t>(inst.src[0]);
  for (uint32_t l = 0; l < kLaneCount; ++l) {
    for (uint32_t i = 0; i < 2; ++i) matrix[l / 4][l % 4 * 2 + i] = from[2 * l + i];
  }
  auto* to = w.Slot<uint16_t>(inst.dst);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    for (uint32_t i = 0; i < 2; ++i) to[2 * l + i] = matrix[l % 4 * 2 + i][l / 4];
  }
}

void LowerMovMatrix(Lowering& l) {
  if (!l.Take("sync") || !l.Take("aligned") || !l.Take("m8n8") || !l.Take("trans") || !l.Take("b16")) return l.Unknown();
  const uint32_t from = l.Source(1, kB32), to = l.Destination(0, kB32);
  Inst& inst = EmitWarpWide(l, &Transpose);
  inst.src[0] = from;
  inst.dst = to;
}

constexpr OpRow kRows[] = {
    {"mma", kAnyType, LowerMma},
    {"wmma", kAnyType, LowerWmma},
    {"ldmatrix", kAnyType, LowerMoveRows<false>},
    {"stmatrix", kAnyType, LowerMoveRows<true>},
    {"movmatrix", kAnyType, LowerMovMatrix},
};

}  // namespace

std::span<const OpRow> MatrixOps() { return kRows; }

}  // namespace tessera::emulator
