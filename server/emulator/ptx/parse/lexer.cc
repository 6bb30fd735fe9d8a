#include "server/emulator/ptx/parse/lexer.h"

#include <bit>
#include <cstdlib>
#include <string>

namespace tessera::emulator {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%'; }
bool IsWordChar(char c) { return IsWordStart(c) || IsDigit(c); }
int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Lexer::SkipBlank() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ < text_.size() && !(text_[at_] == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
    } else {
      return;
    }
  }
}

Token Lexer::Number() {
  Token token{TokenKind::kInteger, {}, 0, line_};
  const size_t begin = at_;
  auto finish = [&](TokenKind kind) {
    token.kind = kind;
    token.text = text_.substr(begin, at_ - begin);
    return token;
  };
  auto hex = [&](size_t digits_needed) {
    size_t count = 0;
    while (at_ < text_.size() && HexValue(text_[at_]) >= 0 && (digits_needed == 0 || count < digits_needed)) {
      token.bits = token.bits << 4 | static_cast<uint64_t>(HexValue(text_[at_]));
      ++at_;
      ++count;
    }
    return digits_needed == 0 ? count > 0 && count <= 16 : count == digits_needed;
  };
  if (text_[at_] == '0' && at_ + 1 < text_.size()) {
    const char mark = text_[at_ + 1];
    if (mark == 'x' || mark == 'X') {
      at_ += 2;
      if (!hex(0)) return finish(TokenKind::kError);
      if (at_ < text_.size() && text_[at_] == 'U') ++at_;
      return finish(TokenKind::kInteger);
    }
    if (mark == 'f' || mark == 'F') {
      at_ += 2;
      return finish(hex(8) ? TokenKind::kFloat : TokenKind::kError);
    }
    if (mark == 'd' || mark == 'D') {
      at_ += 2;
      return finish(hex(16) ? TokenKind::kDouble : TokenKind::kError);
    }
    if (mark == 'b' || mark == 'B') {
      at_ += 2;
      while (at_ < text_.size() && (text_[at_] == '0' || text_[at_] == '1')) token.bits = token.bits << 1 | (text_[at_++] == '1');
      return finish(TokenKind::kInteger);
    }
  }
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
  const bool fraction = at_ + 1 < text_.size() && text_[at_] == '.' && IsDigit(text_[at_ + 1]);
  const bool exponent = at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E');
  if (fraction || exponent) {
    if (fraction) {
      ++at_;
      while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    }
    token.bits = std::bit_cast<uint64_t>(std::strtod(std::string(text_.substr(begin, at_ - begin)).c_str(), nullptr));
    return finish(TokenKind::kDouble);
  }
  const bool octal = text_[begin] == '0' && at_ - begin > 1;
  for (size_t i = begin; i < at_; ++i) {
    if (octal && text_[i] > '7') return finish(TokenKind::kError);
    token.bits = token.bits * (octal ? 8 : 10) + static_cast<uint64_t>(text_[i] - '0');
  }
  if (at_ < text_.size() && text_[at_] == 'U') ++at_;
  return finish(TokenKind::kInteger);
}

Token Lexer::Next() {
  SkipBlank();
  Token token;
  token.line = line_;
  if (at_ >= text_.size() || text_[at_] == '\0') {
    at_ = text_.size();
    return token;
  }
  const size_t begin = at_;
  const char c = text_[at_];
  auto take = [&](TokenKind kind) {
    token.kind = kind;
    token.text = text_.substr(begin, at_ - begin);
    return token;
  };
  if (IsDigit(c)) return Number();
  if (IsWordStart(c)) {
    ++at_;
    // A dot continues a word (opcode modifiers, "%tid.x"); "::" continues a modifier ("shared::cta").
    while (at_ < text_.size()) {
      const char d = text_[at_];
      if (IsWordChar(d) || (d == '.' && at_ + 1 < text_.size() && IsWordChar(text_[at_ + 1]))) {
        ++at_;
      } else if (d == ':' && at_ + 2 < text_.size() && text_[at_ + 1] == ':' && IsWordChar(text_[at_ + 2])) {
        at_ += 2;
      } else {
        break;
      }
    }
    return take(TokenKind::kWord);
  }
  if (c == '.' && at_ + 1 < text_.size() && IsWordChar(text_[at_ + 1])) {
    ++at_;
    while (at_ < text_.size()) {
      const char d = text_[at_];
      if (IsWordChar(d)) {
        ++at_;
      } else if (d == ':' && at_ + 2 < text_.size() && text_[at_ + 1] == ':' && IsWordChar(text_[at_ + 2])) {
        at_ += 2;
      } else {
        break;
      }
    }
    return take(TokenKind::kDirective);
  }
  if (c == '"') {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    if (at_ >= text_.size() || text_[at_] != '"') return take(TokenKind::kError);
    ++at_;
    return take(TokenKind::kString);
  }
  ++at_;
  constexpr std::string_view kPunctuation = "{}()[]<>,;:=+-*/!@|&~^?.%";
  return take(kPunctuation.find(c) != std::string_view::npos ? TokenKind::kPunctuation : TokenKind::kError);
}

}  // namespace tessera::emulator
