// PTX's fundamental types. Source: PTX ISA 9.0, "Types".
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::emulator {

enum class TypeClass : uint8_t {
  kNone,
  kPredicate,
  kBits,
  kUnsigned,
  kSigned,
  kFloat,
  kBrainFloat,
  kPackedHalf,
  kPackedBrain,
  kPackedUnsigned,
  kPackedSigned,
  kOther
};

struct Type {
  TypeClass type_class = TypeClass::kNone;
  uint8_t size_bytes = 0;  // 4 for a predicate: one bit per lane in a 32-bit word is how a warp keeps it

  bool operator==(const Type&) const = default;
  explicit operator bool() const { return type_class != TypeClass::kNone; }
  bool IsSigned() const { return type_class == TypeClass::kSigned; }
  bool IsPredicate() const { return type_class == TypeClass::kPredicate; }
  bool IsInteger() const {
    return type_class == TypeClass::kBits || type_class == TypeClass::kUnsigned || type_class == TypeClass::kSigned;
  }
  bool IsFloat() const { return type_class == TypeClass::kFloat; }
};

inline constexpr Type kPred{TypeClass::kPredicate, 4};
inline constexpr Type kB8{TypeClass::kBits, 1}, kB16{TypeClass::kBits, 2}, kB32{TypeClass::kBits, 4};
inline constexpr Type kB64{TypeClass::kBits, 8}, kB128{TypeClass::kBits, 16};
inline constexpr Type kU8{TypeClass::kUnsigned, 1}, kU16{TypeClass::kUnsigned, 2}, kU32{TypeClass::kUnsigned, 4};
inline constexpr Type kU64{TypeClass::kUnsigned, 8};
inline constexpr Type kS8{TypeClass::kSigned, 1}, kS16{TypeClass::kSigned, 2}, kS32{TypeClass::kSigned, 4};
inline constexpr Type kS64{TypeClass::kSigned, 8};
inline constexpr Type kF16{TypeClass::kFloat, 2}, kF32{TypeClass::kFloat, 4}, kF64{TypeClass::kFloat, 8};
inline constexpr Type kBf16{TypeClass::kBrainFloat, 2}, kF16x2{TypeClass::kPackedHalf, 4};
inline constexpr Type kBf16x2{TypeClass::kPackedBrain, 4};
inline constexpr Type kU16x2{TypeClass::kPackedUnsigned, 4}, kS16x2{TypeClass::kPackedSigned, 4};

// The type named by `word` ("u32", without the dot); false when it names none.
bool ParseType(std::string_view word, Type* type);
// Whether `word` looks like a type of numbers or bits ("u33") whose width no instruction of PTX has.
bool IsTypeOfNoWidth(std::string_view word);

}  // namespace tessera::emulator
