#include "server/emulator/ptx/operations/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "server/emulator/ptx/run/half.h"

namespace tessera::emulator {
namespace {

// tf32 has f32's exponent and ten bits of fraction; devices ignore the lower bits of the register.
constexpr uint32_t kTf32Bits = 0xFFFFE000u;
constexpr uint32_t kNaN = 0x7FFFFFFFu;  // what devices give for f32

int64_t SumOfIntegers(double sum, bool saturate) {
  const auto whole = static_cast<int64_t>(sum);
  return saturate ? std::clamp<int64_t>(whole, INT32_MIN, INT32_MAX) : static_cast<int32_t>(static_cast<uint64_t>(whole));
}

}  // namespace

bool ParseElementFormat(std::string_view word, ElementFormat* format) {
  static constexpr std::pair<std::string_view, ElementFormat> kWords[] = {
      {"f16", ElementFormat::kF16}, {"bf16", ElementFormat::kBf16}, {"tf32", ElementFormat::kTf32}, {"f32", ElementFormat::kF32},
      {"f64", ElementFormat::kF64}, {"s8", ElementFormat::kS8},     {"u8", ElementFormat::kU8},     {"s32", ElementFormat::kS32}};
  for (const auto& [name, value] : kWords) {
    if (name != word) continue;
    *format = value;
    return true;
  }
  return false;
}

uint32_t ElementBytes(ElementFormat format) {
  switch (format) {
    case ElementFormat::kS8:
    case ElementFormat::kU8: return 1;
    case ElementFormat::kF16:
    case ElementFormat::kBf16: return 2;
    case ElementFormat::kF64: return 8;
    default: return 4;
  }
}

Type RegisterTypeOf(ElementFormat format) { return format == ElementFormat::kF64 ? kB64 : kB32; }

Position FragmentShape::At(uint32_t lane, uint32_t element) const {
  const uint32_t group = lane / 4, thread = lane % 4, each = ElementsPerRegister(format);
  const uint32_t reg = element / each, part = element % each;
  switch (kind) {
    case FragmentKind::kMmaA: {
      const uint32_t halves = rows / 8;  // registers alternate between the upper and the lower eight rows
      return {group + 8 * (reg % halves), reg / halves * 4 * each + thread * each + part};
    }
    case FragmentKind::kMmaB: return {reg * 4 * each + thread * each + part, group};
    case FragmentKind::kMmaC: return {group + element / 2 * 8, thread * 2 + element % 2};
    case FragmentKind::kLinear: {
      const uint32_t index = (lane * elements() + element) % (rows * columns);
      return {index / columns, index % columns};
    }
  }
  return {};
}

double ReadElement(Warp& w, const uint32_t* slots, ElementFormat format, uint32_t lane, uint32_t element) {
  const uint32_t each = ElementsPerRegister(format);
  const uint32_t slot = slots[element / each], part = element % each;
  if (format == ElementFormat::kF64) return w.Slot<double>(slot)[lane];
  const uint32_t bits = w.Slot<uint32_t>(slot)[lane];
  switch (format) {
    case ElementFormat::kF16: return HalfToFloat::Run(static_cast<uint16_t>(bits >> 16 * part));
    case ElementFormat::kBf16: return BrainToFloat::Run(static_cast<uint16_t>(bits >> 16 * part));
    case ElementFormat::kTf32: return std::bit_cast<float>(bits & kTf32Bits);
    case ElementFormat::kS8: return static_cast<int8_t>(bits >> 8 * part);
    case ElementFormat::kU8: return static_cast<uint8_t>(bits >> 8 * part);
    case ElementFormat::kS32: return static_cast<int32_t>(bits);
    default: return std::bit_cast<float>(bits);
  }
}

void WriteElement(Warp& w, const uint32_t* slots, ElementFormat format, uint32_t lane, uint32_t element, double value) {
  const uint32_t each = ElementsPerRegister(format);
  const uint32_t slot = slots[element / each], part = element % each;
  if (format == ElementFormat::kF64) {
    w.Slot<double>(slot)[lane] = value;
    return;
  }
  uint32_t& bits = w.Slot<uint32_t>(slot)[lane];
  const auto put = [&](uint32_t size_bits, uint32_t piece) {
    const uint32_t mask = (1u << size_bits) - 1;
    bits = (bits & ~(mask << size_bits * part)) | (piece & mask) << size_bits * part;
  };
  switch (format) {
    case ElementFormat::kF16: put(16, FloatToHalf(OddFloat(value))); break;
    case ElementFormat::kBf16: put(16, FloatToBrain(OddFloat(value))); break;
    case ElementFormat::kS8:
    case ElementFormat::kU8: put(8, static_cast<uint32_t>(static_cast<int32_t>(value))); break;
    case ElementFormat::kS32: bits = static_cast<uint32_t>(static_cast<int32_t>(value)); break;
    default: bits = value != value ? kNaN : std::bit_cast<uint32_t>(static_cast<float>(value)); break;
  }
}

void Gather(Warp& w, const uint32_t* slots, const FragmentShape& shape, Matrix* matrix) {
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    for (uint32_t i = 0; i < shape.elements(); ++i) matrix->At(shape.At(lane, i)) = ReadElement(w, slots, shape.format, lane, i);
  }
}

void Scatter(Warp& w, const uint32_t* slots, const FragmentShape& shape, uint32_t lanes, Matrix& matrix) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    for (uint32_t i = 0; i < shape.elements(); ++i) WriteElement(w, slots, shape.format, lane, i, matrix.At(shape.At(lane, i)));
  }
}

void MultiplyAdd(Matrix& a, Matrix& b, Matrix& c, uint32_t rows, uint32_t columns, uint32_t depth, ElementFormat format,
                 bool saturate, Matrix* d) {
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column < columns; ++column) {
      double sum = c.At({row, column});
      for (uint32_t k = 0; k < depth; ++k) {
        const double x = a.At({row, k}), y = b.At({k, column});
        sum = format == ElementFormat::kF64 ? std::fma(x, y, sum) : sum + x * y;
      }
      d->At({row, column}) = format == ElementFormat::kS32 ? static_cast<double>(SumOfIntegers(sum, saturate)) : sum;
    }
  }
}

void AppendFragment(const FragmentShape& shape, const std::vector<uint32_t>& slots, std::vector<uint32_t>* words) {
  words->insert(words->end(), {static_cast<uint32_t>(shape.kind), static_cast<uint32_t>(shape.format), shape.rows, shape.columns,
                               shape.registers});
  words->insert(words->end(), slots.begin(), slots.end());
}

FragmentShape ReadFragment(const uint32_t** words, const uint32_t** slots) {
  const uint32_t* at = *words;
  const FragmentShape shape{static_cast<FragmentKind>(at[0]), static_cast<ElementFormat>(at[1]), at[2], at[3], at[4]};
  *slots = at + 5;
  *words = *slots + shape.registers;
  return shape;
}

}  // namespace tessera::emulator
