// The operands of instructions.ptx, the same for the recording on a device and for the test. Plain C++17 without dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

inline constexpr size_t kTripleCount = 512;

// Edges of every format, in all parts of the word that some form reads, and random patterns in between.
inline std::vector<uint64_t> InstructionOperands(uint32_t which) {
  static const uint32_t kSingles[] = {0,          0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                      0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F000000, 0x40490FDB,
                                      0x4B800001, 0x4F000000, 0xCF000001, 0x5F000000, 0x3FC00000, 0x40200000, 0x477FE000,
                                      0x477FF000, 0x33800000, 0x387FC000, 0x43E00000, 0x43E80000, 0xC2FF0000};
  static const uint64_t kDoubles[] = {
      0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000,
      0x7FF8000000000000, 0x0000000000000001, 0x000FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x41DFFFFFFFC00000, 0x41E0000000000000,
      0x43E0000000000000, 0xC3E0000000000000, 0x43EFFFFFFFFFFFFF, 0x3FE0000000000000, 0x4004000000000000, 0x380FFFFFFFFFFFFF,
      0x36A0000000000000, 0x47EFFFFFE0000000, 0x40EFFC0000000000, 0x3E70000000000001, 0x3F0FF80000000000};
  static const uint64_t kIntegers[] = {0,
                                       1,
                                       2,
                                       3,
                                       5,
                                       7,
                                       8,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       127,
                                       128,
                                       255,
                                       256,
                                       0x7FFF,
                                       0x8000,
                                       0xFFFF,
                                       0x10000,
                                       0x7FFFFFFF,
                                       0x80000000,
                                       0xFFFFFFFF,
                                       0x100000000,
                                       0x7FFFFFFFFFFFFFFF,
                                       0x8000000000000000,
                                       0xFFFFFFFFFFFFFFFF,
                                       0xFFFFFFFF80000000,
                                       0x0000080000000410,
                                       0x1004,
                                       0x0818};
  static const uint16_t kHalves[] = {0,      0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x0001,
                                     0x03FF, 0x0400, 0x7BFF, 0x3800, 0x3F80, 0xBF80, 0x7F80, 0xFF80,
                                     0x7FC0, 0x007F, 0x0080, 0x7F7F, 0x4248, 0x3555, 0x8001, 0xFE00};
  uint64_t state = 0x9E3779B97F4A7C15ull * (which + 1);
  auto random = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  auto pick = [&](const auto& table) { return static_cast<uint64_t>(table[random() % (sizeof(table) / sizeof(table[0]))]); };
  std::vector<uint64_t> values(kTripleCount);
  for (size_t i = 0; i < kTripleCount; ++i) {
    switch (i % 8) {
      case 0: values[i] = random(); break;
      case 1: values[i] = pick(kSingles) << 32 | pick(kSingles); break;
      case 2: values[i] = pick(kDoubles); break;
      case 3: values[i] = pick(kIntegers); break;
      case 4: values[i] = pick(kHalves) << 48 | pick(kHalves) << 32 | pick(kHalves) << 16 | pick(kHalves); break;
      case 5: values[i] = which == 0 ? random() : random() % 70; break;
      case 6:
        values[i] = (random() & 0x80000000807FFFFFull) | 0x3F8000003F000000ull | (random() & 0x03000000ull);
        break;  // near one
      default: values[i] = random() >> random() % 64; break;
    }
  }
  return values;
}

inline uint64_t HashResults(const uint64_t* results) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (size_t i = 0; i < kTripleCount; ++i) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (results[i] >> 8 * byte & 0xFF)) * 0x100000001B3ull;
  }
  return hash;
}
