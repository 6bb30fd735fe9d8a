// Matrices that a warp holds together in the registers of its lanes (fragments).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {

enum class ElementFormat : uint8_t { kF16, kBf16, kTf32, kF32, kF64, kS8, kU8, kS32 };

// The format that a modifier names ("tf32"); false when it names none that matrices have here.
bool ParseElementFormat(std::string_view word, ElementFormat* format);
uint32_t ElementBytes(ElementFormat format);
// What one register of a fragment is to the rest of the interpreter: 32 bits that may hold several elements, or an f64.
Type RegisterTypeOf(ElementFormat format);
inline uint32_t ElementsPerRegister(ElementFormat format) { return RegisterTypeOf(format).size_bytes / ElementBytes(format); }

struct Position {
  uint32_t row, column;
};

// How a fragment's elements lie: `element` counts those of one lane, in order of its registers.
enum class FragmentKind : uint8_t {
  kMmaA,  // PTX ISA 9.0, "Matrix Fragments for mma": rows by lane / 4, columns by lane % 4
  kMmaB,
  kMmaC,    // also D
  kLinear,  // wmma, whose layout is ours to choose: in order of lanes, repeated when the lanes hold more than there are
};
struct FragmentShape {
  FragmentKind kind;
  ElementFormat format;
  uint32_t rows, columns;
  uint32_t registers;  // per lane

  uint32_t elements() const { return registers * ElementsPerRegister(format); }  // per lane
  Position At(uint32_t lane, uint32_t element) const;
};

// One element of a lane. Every format's values are exact in a double.
double ReadElement(Warp& w, const uint32_t* slots, ElementFormat format, uint32_t lane, uint32_t element);
void WriteElement(Warp& w, const uint32_t* slots, ElementFormat format, uint32_t lane, uint32_t element, double value);

// At most 32 rows and columns.
struct Matrix {
  std::array<double, 32 * 32> values;
  double& At(Position p) { return values[p.row * 32 + p.column]; }
};
void Gather(Warp& w, const uint32_t* slots, const FragmentShape& shape, Matrix* matrix);
void Scatter(Warp& w, const uint32_t* slots, const FragmentShape& shape, uint32_t lanes, Matrix& matrix);

// d = a * b + c over `depth` columns of a. Sums are taken in double and rounded once to `format`; f64 as a chain of fma, as
// devices do. Integers wrap, or stay within 32 bits when `saturate`.
void MultiplyAdd(Matrix& a, Matrix& b, Matrix& c, uint32_t rows, uint32_t columns, uint32_t depth, ElementFormat format,
                 bool saturate, Matrix* d);

// Words of an instruction that describe a fragment: its shape, then its slots.
void AppendFragment(const FragmentShape& shape, const std::vector<uint32_t>& slots, std::vector<uint32_t>* words);
FragmentShape ReadFragment(const uint32_t** words, const uint32_t** slots);

}  // namespace tessera::emulator
