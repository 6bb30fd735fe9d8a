// The recursive-descent parser behind ParsePtx: parser.cc holds module level and declarations, parse_function.cc bodies.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/base/status.h"
#include "server/emulator/ptx/parse/ast.h"
#include "server/emulator/ptx/parse/lexer.h"

namespace tessera::emulator {

// Bounds of what one text may declare; far above what compilers write.
inline constexpr uint64_t kMaxRegisters = 1u << 20;
inline constexpr uint64_t kMaxVariableBytes = 1ull << 32;

class Parser {
 public:
  explicit Parser(Unit& unit) : unit_(unit), lexer_(unit.text) { Advance(); }
  Status Run();

 private:
  struct Name {
    Operand::Kind kind;  // kRegister or kVariable
    uint32_t index;
    uint32_t count;  // of a range %r<count>; 0 for a single name
  };
  using Scope = std::unordered_map<std::string_view, Name>;

  // parser.cc
  void Advance() { token_ = lexer_.Next(); }
  bool failed() const { return !status_.ok(); }
  void Fail(const std::string& what);
  bool At(std::string_view punctuation) const {
    return (token_.kind == TokenKind::kPunctuation || token_.kind == TokenKind::kDirective) && token_.text == punctuation;
  }
  bool Take(std::string_view text) {
    if (!At(text)) return false;
    Advance();
    return true;
  }
  void Expect(std::string_view punctuation);
  std::string_view Word(const char* what);
  int64_t SignedInteger();
  uint64_t UnsignedInteger(const char* what, uint64_t bound);
  void SkipLine();
  void SkipSection();
  void ParseModuleItem();
  // Of a kernel when `function` is one. Pragmas that are not known are no errors.
  void ParsePragma(FunctionDecl* function);
  void ParseDuration(FunctionDecl* function, std::string_view parameter);
  void ParseVersion();
  void ParseTarget();
  void ParseAddressSize();
  void ParseAlias();
  // `declared` is what precedes the name: space, alignment, type; ParseVariables reads names, sizes, initialisers.
  bool ParseVariablePrefix(VariableDecl* declared);
  void ParseVariableName(VariableDecl* variable, bool parameter);
  void ParseInitializer(VariableDecl* variable);
  void ParseInitializerValue(VariableDecl* variable);

  // parse_function.cc
  void ParseFunction(Linkage linkage, bool entry);
  void ParseFormals(FunctionDecl* function, Scope* scope, std::vector<Formal>* formals);
  void ParseFunctionDirectives(FunctionDecl* function);
  void ParseBody();
  void ParseBodyItem();
  void ParseRegisters();
  void ParseLocalVariables();
  void ParseLabel(std::string_view name);
  void ParseStatement();
  void ParseCall(Statement* statement);
  Operand ParseOperand(int depth);
  Operand ParseAddress(int depth);
  Operand ParseNamed(std::string_view name);
  Operand ParseLiteral(bool negative);
  std::vector<Operand> ParseOperandList(std::string_view end);
  std::vector<std::string_view> ParseNameList();
  uint32_t NewVariable(VariableDecl variable);

  Unit& unit_;
  Lexer lexer_;
  Token token_;
  Status status_;
  FunctionDecl* function_ = nullptr;
  std::vector<Scope> scopes_;  // innermost last
  std::vector<uint32_t> scope_ids_;
};

}  // namespace tessera::emulator
