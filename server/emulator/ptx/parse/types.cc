#include "server/emulator/ptx/parse/types.h"

#include <algorithm>
#include <iterator>

namespace tessera::emulator {

bool ParseType(std::string_view word, Type* type) {
  struct Row {
    std::string_view name;
    Type type;
  };
  static constexpr Row kRows[] = {
      {"pred", kPred},   {"b8", kB8},         {"b16", kB16},     {"b32", kB32},     {"b64", kB64}, {"b128", kB128},
      {"u8", kU8},       {"u16", kU16},       {"u32", kU32},     {"u64", kU64},     {"s8", kS8},   {"s16", kS16},
      {"s32", kS32},     {"s64", kS64},       {"f16", kF16},     {"f32", kF32},     {"f64", kF64}, {"bf16", kBf16},
      {"f16x2", kF16x2}, {"bf16x2", kBf16x2}, {"u16x2", kU16x2}, {"s16x2", kS16x2},
  };
  for (const Row& row : kRows) {
    if (row.name == word) {
      *type = row.type;
      return true;
    }
  }
  return false;
}

bool IsTypeOfNoWidth(std::string_view word) {
  if (word.size() < 2 || std::string_view("usbf").find(word[0]) == std::string_view::npos) return false;
  const std::string_view width = word.substr(1);
  if (width.find_first_not_of("0123456789") != std::string_view::npos) return false;
  // Some types of fewer than 8 bits are operands of matrix instructions alone.
  static constexpr std::string_view kWidths[] = {"1", "2", "4", "8", "16", "32", "64", "128"};
  return std::ranges::find(kWidths, width) == std::end(kWidths);
}

}  // namespace tessera::emulator
