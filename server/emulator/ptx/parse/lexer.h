// Splits PTX text into tokens. Source: PTX ISA 9.0, "Syntax".
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::emulator {

enum class TokenKind : uint8_t {
  kEnd,
  kWord,       // identifier, register, special register with its component, opcode with all its modifiers
  kDirective,  // ".reg", with the dot
  kInteger,
  kFloat,   // 0f........, bits of an f32
  kDouble,  // 0d................ or decimal; bits of an f64
  kString,
  kPunctuation,
  kError,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  uint64_t bits = 0;
  uint32_t line = 0;
  bool Is(std::string_view what) const { return text == what; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  // kEnd for ever once the text is used up; kError for a character or literal that PTX does not have.
  Token Next();

 private:
  void SkipBlank();
  Token Number();
  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace tessera::emulator
