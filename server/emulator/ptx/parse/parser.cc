#include "server/emulator/ptx/parse/parser.h"

#include <fmt/core.h>

#include <bit>

#include "server/emulator/ptx/parse/parser_impl.h"

namespace tessera::emulator {

Result<std::unique_ptr<Unit>> ParsePtx(std::string_view text) {
  auto unit = std::make_unique<Unit>();
  unit->text = std::string(text.substr(0, text.find('\0')));
  Parser parser(*unit);
  Status status = parser.Run();
  if (!status.ok()) return status;
  return unit;
}

void Parser::Fail(const std::string& what) {
  if (failed()) return;
  status_ = Status(StatusCode::kInvalidArgument, fmt::format("ptx line {}: {}", token_.line, what));
  // Everything that follows sees the end of the text.
  token_ = Token{TokenKind::kEnd, {}, 0, token_.line};
  lexer_ = Lexer({});
}

void Parser::Expect(std::string_view punctuation) {
  if (!Take(punctuation)) Fail(fmt::format("'{}' is expected, not '{}'", punctuation, token_.text));
}

std::string_view Parser::Word(const char* what) {
  if (token_.kind != TokenKind::kWord) {
    Fail(fmt::format("{} is expected, not '{}'", what, token_.text));
    return {};
  }
  std::string_view word = token_.text;
  Advance();
  return word;
}

int64_t Parser::SignedInteger() {
  const bool negative = Take("-");
  if (token_.kind != TokenKind::kInteger) {
    Fail(fmt::format("an integer is expected, not '{}'", token_.text));
    return 0;
  }
  const uint64_t bits = token_.bits;
  Advance();
  return static_cast<int64_t>(negative ? 0 - bits : bits);
}

uint64_t Parser::UnsignedInteger(const char* what, uint64_t bound) {
  if (token_.kind != TokenKind::kInteger || token_.bits > bound) {
    Fail(fmt::format("{} is expected (at most {}), not '{}'", what, bound, token_.text));
    return 0;
  }
  const uint64_t bits = token_.bits;
  Advance();
  return bits;
}

void Parser::SkipLine() {
  const uint32_t line = token_.line;
  while (token_.kind != TokenKind::kEnd && token_.line == line) Advance();
}

void Parser::SkipSection() {
  Advance();
  while (token_.kind != TokenKind::kEnd && !At("{")) Advance();
  while (token_.kind != TokenKind::kEnd && !At("}")) Advance();
  Expect("}");
}

Status Parser::Run() {
  while (!failed() && token_.kind != TokenKind::kEnd) ParseModuleItem();
  if (!failed() && unit_.version == 0) Fail("the text has no .version directive");
  return status_;
}

void Parser::ParseModuleItem() {
  if (Take(";")) return;
  if (token_.kind != TokenKind::kDirective) return Fail(fmt::format("a directive is expected, not '{}'", token_.text));
  if (At(".version")) return ParseVersion();
  if (At(".target")) return ParseTarget();
  if (At(".address_size")) return ParseAddressSize();
  if (At(".file") || At(".loc")) return SkipLine();
  if (At(".section")) return SkipSection();
  if (At(".alias")) return ParseAlias();
  if (At(".pragma")) return ParsePragma(nullptr);
  Linkage linkage = Linkage::kStatic;
  if (Take(".visible"))
    linkage = Linkage::kVisible;
  else if (Take(".extern"))
    linkage = Linkage::kExtern;
  else if (Take(".weak"))
    linkage = Linkage::kWeak;
  else if (Take(".common"))
    linkage = Linkage::kCommon;
  if (Take(".func")) return ParseFunction(linkage, false);
  if (Take(".entry")) return ParseFunction(linkage, true);
  VariableDecl declared;
  declared.linkage = linkage;
  if (!ParseVariablePrefix(&declared)) return Fail(fmt::format("directive '{}' is not known to the emulator", token_.text));
  do {
    VariableDecl variable = declared;
    ParseVariableName(&variable, false);
    if (failed()) return;
    if (variable.space == Space::kReg || variable.space == Space::kLocal || variable.space == Space::kParam) {
      return Fail(fmt::format("variable '{}' is in a space that module scope does not have", variable.name));
    }
    unit_.variables.push_back(std::move(variable));
  } while (Take(","));
  Expect(";");
}

void Parser::ParseVersion() {
  Advance();
  uint32_t major = 0, minor = 0;
  if (token_.kind == TokenKind::kDouble) {  // "9.0" reads as a decimal
    const std::string text(token_.text);
    if (std::sscanf(text.c_str(), "%u.%u", &major, &minor) != 2 || major > 99 || minor > 9) return Fail("the version is not M.N");
    Advance();
  } else {
    return Fail("the version is not M.N");
  }
  unit_.version = major * 10 + minor;
}

void Parser::ParseTarget() {
  Advance();
  do {
    std::string_view word = Word("a target");
    unsigned sm = 0;
    if (std::sscanf(std::string(word).c_str(), "sm_%u", &sm) == 1) unit_.target_sm = sm;
  } while (!failed() && Take(","));
}

void Parser::ParseAddressSize() {
  Advance();
  if (UnsignedInteger("an address size", 64) != 64 && !failed()) {
    status_ = Status(StatusCode::kUnsupported, "the emulator has 64-bit addresses only, the text says .address_size 32");
  }
}

void Parser::ParseAlias() {
  Advance();
  Alias alias;
  alias.name = Word("a name");
  Expect(",");
  alias.target = Word("a name");
  Expect(";");
  unit_.aliases.push_back(alias);
}

bool Parser::ParseVariablePrefix(VariableDecl* declared) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {{".reg", Space::kReg},     {".global", Space::kGlobal},
                                                                   {".const", Space::kConst}, {".shared", Space::kShared},
                                                                   {".local", Space::kLocal}, {".param", Space::kParam}};
  bool found = false;
  for (const auto& [word, space] : kSpaces) {
    if (At(word)) {
      declared->space = space;
      found = true;
    }
  }
  if (!found) return false;
  Advance();
  bool pointer = false;
  while (!failed() && token_.kind == TokenKind::kDirective) {
    const std::string_view word = token_.text.substr(1);
    Type type;
    if (word == "align") {
      Advance();
      const uint64_t alignment = UnsignedInteger("an alignment", 1u << 20);
      if (!failed() && !std::has_single_bit(alignment)) Fail("an alignment is not a power of two");
      if (!pointer) declared->alignment_bytes = alignment;
      continue;
    }
    if (word == "attribute") {
      Advance();
      Expect("(");
      int depth = 1;
      while (!failed() && depth > 0 && token_.kind != TokenKind::kEnd) {
        if (At(".managed")) declared->managed = true;
        if (At("(")) ++depth;
        if (At(")")) --depth;
        Advance();
      }
      continue;
    }
    if (word == "ptr")
      pointer = true;
    else if (word == "v2")
      declared->vector_count = 2;
    else if (word == "v4")
      declared->vector_count = 4;
    else if (word == "texref" || word == "samplerref" || word == "surfref")
      declared->opaque = true, declared->type = kB64;
    else if (ParseType(word, &type))
      declared->type = type;
    else if (!(pointer && (word == "global" || word == "const" || word == "shared" || word == "local"))) {
      Fail(fmt::format("'{}' is not known in a declaration", token_.text));
    }
    Advance();
  }
  if (!failed() && !declared->type) Fail("a declaration has no type");
  return true;
}

void Parser::ParseVariableName(VariableDecl* variable, bool parameter) {
  variable->line = token_.line;
  variable->name = Word("a name");
  uint64_t count = variable->vector_count;
  while (!failed() && Take("[")) {
    if (At("]")) {
      variable->unsized_array = true;
    } else {
      const uint64_t n = UnsignedInteger("an array size", kMaxVariableBytes);
      if (n != 0 && count > kMaxVariableBytes / n) return Fail(fmt::format("variable '{}' is too large", variable->name));
      count *= n;
    }
    Expect("]");
  }
  if (failed()) return;
  if (variable->unsized_array) count = 0;
  const uint64_t element = variable->type.size_bytes;
  if (count > kMaxVariableBytes / element) return Fail(fmt::format("variable '{}' is too large", variable->name));
  variable->size_bytes = count * element;
  if (variable->alignment_bytes < element * variable->vector_count) variable->alignment_bytes = element * variable->vector_count;
  if (!parameter && Take("=")) ParseInitializer(variable);
  if (variable->unsized_array && !variable->initializer.empty()) {
    variable->size_bytes = variable->initializer.size() * element;
    variable->unsized_array = false;
  }
}

void Parser::ParseInitializer(VariableDecl* variable) {
  if (!At("{")) return ParseInitializerValue(variable);
  int depth = 0;
  do {
    if (Take("{")) {
      ++depth;
    } else if (Take("}")) {
      --depth;
      if (depth > 0) Take(",");
    } else {
      ParseInitializerValue(variable);
      if (!Take(",") && !At("}")) Fail(fmt::format("',' or '}}' is expected, not '{}'", token_.text));
    }
  } while (!failed() && depth > 0);
}

void Parser::ParseInitializerValue(VariableDecl* variable) {
  Initializer value;
  if (token_.kind == TokenKind::kFloat || token_.kind == TokenKind::kDouble) {
    value.kind = Initializer::kFloat;
    value.bits = token_.bits;
    value.float_bytes = token_.kind == TokenKind::kFloat ? 4 : 8;
    Advance();
  } else if (token_.kind == TokenKind::kInteger || At("-")) {
    value.bits = static_cast<uint64_t>(SignedInteger());
    if (Take("(")) {  // 0xFF00(symbol): one byte of an address
      value.kind = Initializer::kSymbol;
      value.mask = value.bits;
      if (value.mask == 0) return Fail("a mask of an address is zero");
      if (token_.kind == TokenKind::kWord && token_.text == "generic") {
        Advance();
        Expect("(");
        value.symbol = Word("a name");
        if (Take("+")) value.offset = SignedInteger();
        Expect(")");
      } else {
        value.symbol = Word("a name");
      }
      if (Take("+")) value.offset = SignedInteger();
      Expect(")");
    }
  } else if (token_.kind == TokenKind::kWord) {
    value.kind = Initializer::kSymbol;
    value.symbol = Word("a name");
    if (value.symbol == "generic" && Take("(")) {
      value.generic = true;
      value.symbol = Word("a name");
      if (Take("+")) value.offset = SignedInteger();
      Expect(")");
    }
    if (Take("+"))
      value.offset = SignedInteger();
    else if (At("-"))
      value.offset = SignedInteger();
  } else {
    return Fail(fmt::format("a value is expected, not '{}'", token_.text));
  }
  variable->initializer.push_back(value);
}

}  // namespace tessera::emulator
