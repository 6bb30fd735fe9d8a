// Function headers and bodies. Source: PTX ISA 9.0, "Kernel and Function Directives", "Instruction Statements".
#include <fmt/core.h>

#include <algorithm>

#include "server/emulator/ptx/parse/parser_impl.h"

namespace tessera::emulator {

uint32_t Parser::NewVariable(VariableDecl variable) {
  function_->variables.push_back(std::move(variable));
  return static_cast<uint32_t>(function_->variables.size() - 1);
}

void Parser::ParseFunction(Linkage linkage, bool entry) {
  unit_.functions.push_back(std::make_unique<FunctionDecl>());
  FunctionDecl* function = unit_.functions.back().get();
  function_ = function;
  function->linkage = linkage;
  function->is_entry = entry;
  function->line = token_.line;
  scopes_.assign(1, {});
  scope_ids_.assign(1, 0);
  function->scope_parents.assign(1, 0);
  if (At("(")) ParseFormals(function, &scopes_[0], &function->results);
  function->name = Word("a function name");
  if (At("(")) ParseFormals(function, &scopes_[0], &function->formals);
  ParseFunctionDirectives(function);
  if (failed() || Take(";")) return;
  function->has_body = true;
  ParseBody();
}

void Parser::ParseFormals(FunctionDecl* function, Scope* scope, std::vector<Formal>* formals) {
  Expect("(");
  while (!failed() && !At(")")) {
    VariableDecl declared;
    if (!ParseVariablePrefix(&declared)) return Fail(fmt::format("a parameter is expected, not '{}'", token_.text));
    ParseVariableName(&declared, true);
    if (failed()) return;
    Formal formal;
    if (declared.space == Space::kReg) {
      formal.is_register = true;
      formal.index = static_cast<uint32_t>(function->registers.size());
      function->registers.push_back({declared.type});
      (*scope)[declared.name] = {Operand::kRegister, formal.index, 0};
    } else if (declared.space == Space::kParam) {
      formal.index = NewVariable(declared);
      (*scope)[declared.name] = {Operand::kVariable, formal.index, 0};
    } else {
      return Fail("a parameter is neither in .param nor in .reg space");
    }
    formals->push_back(formal);
    if (!Take(",") && !At(")")) Fail(fmt::format("',' or ')' is expected, not '{}'", token_.text));
  }
  Expect(")");
}

void Parser::ParseFunctionDirectives(FunctionDecl* function) {
  while (!failed() && token_.kind == TokenKind::kDirective) {
    const std::string_view word = token_.text;
    if (word == ".pragma") {
      ParsePragma(function);
      continue;
    }
    Advance();
    uint32_t values[3] = {1, 1, 1};
    int count = 0;
    while (!failed() && token_.kind == TokenKind::kInteger) {
      const uint64_t value = UnsignedInteger("a number", UINT32_MAX);
      if (count < 3) values[count++] = static_cast<uint32_t>(value);
      if (!Take(",")) break;
    }
    if (word == ".maxntid")
      std::copy(values, values + 3, function->max_threads);
    else if (word == ".reqntid")
      std::copy(values, values + 3, function->required_threads);
    else if (word == ".reqnctapercluster")
      std::copy(values, values + 3, function->required_cluster);
    else if (word == ".explicitcluster")
      function->explicit_cluster = true;
    else if (word == ".maxnreg")
      function->max_registers = values[0];
    else if (word == ".noreturn" || word == ".minnctapersm" || word == ".maxnctapersm" || word == ".maxclusterrank" ||
             word == ".blocksareclusters" || word == ".abi_preserve" || word == ".abi_preserve_control" || word == ".unique") {
    } else {
      return Fail(fmt::format("function directive '{}' is not known to the emulator", word));
    }
  }
}

void Parser::ParseBody() {
  Expect("{");
  scopes_.emplace_back();
  scope_ids_.push_back(0);
  const size_t outer = scopes_.size() - 1;
  while (!failed() && scopes_.size() > outer) {
    if (token_.kind == TokenKind::kEnd) return Fail("the text ends inside a function");
    if (Take("{")) {
      function_->scope_parents.push_back(scope_ids_.back());
      scope_ids_.push_back(static_cast<uint32_t>(function_->scope_parents.size() - 1));
      scopes_.emplace_back();
    } else if (Take("}")) {
      scopes_.pop_back();
      scope_ids_.pop_back();
    } else {
      ParseBodyItem();
    }
  }
}

void Parser::ParseBodyItem() {
  if (Take(";")) return;
  if (token_.kind == TokenKind::kDirective) {
    if (At(".reg")) return ParseRegisters();
    if (At(".file") || At(".loc")) return SkipLine();
    if (At(".section")) return SkipSection();
    if (At(".pragma")) return ParsePragma(function_);
    if (At(".local") || At(".shared") || At(".param") || At(".global") || At(".const")) return ParseLocalVariables();
    if (Take(".visible") || Take(".extern") || Take(".weak")) return;
    return Fail(fmt::format("directive '{}' is not known to the emulator", token_.text));
  }
  ParseStatement();
}

void Parser::ParseRegisters() {
  VariableDecl declared;
  ParseVariablePrefix(&declared);
  if (failed()) return;
  if (declared.vector_count != 1) return Fail("vector registers are not known to the emulator");
  do {
    const std::string_view name = Word("a register name");
    uint64_t count = 1;
    bool range = false;
    if (Take("<")) {
      count = UnsignedInteger("a register count", kMaxRegisters);
      Expect(">");
      range = true;
    }
    if (failed()) return;
    if (function_->registers.size() + count > kMaxRegisters) return Fail("a function declares too many registers");
    scopes_.back()[name] = {Operand::kRegister, static_cast<uint32_t>(function_->registers.size()),
                            range ? static_cast<uint32_t>(count) : 0};
    function_->registers.insert(function_->registers.end(), count, RegisterDecl{declared.type});
    function_->declared_32bit_registers += static_cast<uint32_t>(count) * (declared.type.size_bytes > 4  ? 2
                                                                           : declared.type.IsPredicate() ? 0
                                                                                                         : 1);
  } while (Take(","));
  Expect(";");
}

void Parser::ParseLocalVariables() {
  VariableDecl declared;
  ParseVariablePrefix(&declared);
  do {
    VariableDecl variable = declared;
    ParseVariableName(&variable, false);
    if (failed()) return;
    const std::string_view name = variable.name;
    const uint32_t index = NewVariable(std::move(variable));
    scopes_.back()[name] = {Operand::kVariable, index, 0};
  } while (Take(","));
  Expect(";");
}

void Parser::ParseLabel(std::string_view name) {
  if (Take(".callprototype")) {
    while (token_.kind != TokenKind::kEnd && !At(";")) Advance();
    return Expect(";");
  }
  if (Take(".branchtargets") || Take(".calltargets")) {
    function_->target_list_places[name].emplace(scope_ids_.back(), static_cast<uint32_t>(function_->target_lists.size()));
    function_->target_lists.push_back({name, scope_ids_.back(), ParseNameList()});
    return Expect(";");
  }
  function_->label_places[name].emplace(scope_ids_.back(), static_cast<uint32_t>(function_->labels.size()));
  function_->labels.push_back({name, scope_ids_.back(), static_cast<uint32_t>(function_->statements.size())});
}

std::vector<std::string_view> Parser::ParseNameList() {
  std::vector<std::string_view> names;
  do {
    names.push_back(Word("a label"));
  } while (!failed() && Take(","));
  return names;
}

void Parser::ParseStatement() {
  Statement statement;
  statement.line = token_.line;
  statement.scope = scope_ids_.back();
  if (Take("@")) {
    statement.guard_negated = Take("!");
    const Operand guard = ParseNamed(Word("a predicate"));
    if (failed()) return;
    if (guard.kind != Operand::kRegister) return Fail("a guard is not a predicate register");
    statement.guard = static_cast<int32_t>(guard.index);
  }
  const std::string_view word = Word("an instruction");
  if (failed()) return;
  if (statement.guard < 0 && Take(":")) return ParseLabel(word);
  statement.opcode = word;
  for (size_t dot = word.find('.'); dot != std::string_view::npos;) {
    const size_t next = word.find('.', dot + 1);
    const std::string_view modifier = word.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1);
    if (IsTypeOfNoWidth(modifier)) return Fail(fmt::format("there is no type '.{}' ('{}')", modifier, word));
    dot = next;
  }
  if (word == "call" || word.starts_with("call.")) {
    ParseCall(&statement);
  } else if (!At(";")) {
    do {
      statement.operands.push_back(ParseOperand(0));
    } while (!failed() && Take(","));
    if (word.starts_with("brx") && statement.operands.size() == 2) statement.table = statement.operands[1].name;
  }
  Expect(";");
  if (!failed()) function_->statements.push_back(std::move(statement));
}

void Parser::ParseCall(Statement* statement) {
  if (Take("(")) {
    statement->results = ParseOperandList(")");
    Expect(",");
  }
  statement->operands.push_back(ParseNamed(Word("a function")));
  if (Take(",")) {
    if (Take("(")) {
      statement->arguments = ParseOperandList(")");
      if (Take(",")) statement->table = Word("a prototype");
    } else {
      statement->table = Word("a prototype");
    }
  }
}

std::vector<Operand> Parser::ParseOperandList(std::string_view end) {
  std::vector<Operand> list;
  while (!failed() && !At(end)) {
    list.push_back(ParseOperand(1));
    if (!Take(",") && !At(end)) Fail(fmt::format("',' or '{}' is expected, not '{}'", end, token_.text));
  }
  Expect(end);
  return list;
}

Operand Parser::ParseNamed(std::string_view name) {
  Operand operand;
  operand.name = name;
  if (name == "_") {
    operand.kind = Operand::kSink;
    return operand;
  }
  const size_t last = name.find_last_not_of("0123456789");
  const std::string_view prefix = name.substr(0, last + 1);
  const std::string_view digits = name.substr(last + 1);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto found = scope->find(name); found != scope->end() && found->second.count == 0) {
      operand.kind = found->second.kind;
      operand.index = found->second.index;
      return operand;
    }
    // %r<100> declares %r0 to %r99; a prefix may itself end in digits only by an exact name, handled above.
    if (digits.empty() || digits.size() > 7 || (digits.size() > 1 && digits[0] == '0')) continue;
    if (auto found = scope->find(prefix); found != scope->end() && found->second.count != 0) {
      uint32_t number = 0;
      for (char c : digits) number = number * 10 + static_cast<uint32_t>(c - '0');
      if (number >= found->second.count) continue;
      operand.kind = Operand::kRegister;
      operand.index = found->second.index + number;
      return operand;
    }
  }
  operand.kind = name.starts_with('%') ? Operand::kSpecial : Operand::kSymbol;
  return operand;
}

Operand Parser::ParseLiteral(bool negative) {
  Operand operand;
  operand.bits = token_.bits;
  if (token_.kind == TokenKind::kInteger) {
    operand.kind = Operand::kInteger;
    if (negative) operand.bits = 0 - operand.bits;
  } else {
    operand.kind = token_.kind == TokenKind::kFloat ? Operand::kFloat : Operand::kDouble;
    if (negative) operand.bits ^= token_.kind == TokenKind::kFloat ? 1ull << 31 : 1ull << 63;
  }
  Advance();
  return operand;
}

Operand Parser::ParseAddress(int depth) {
  Operand address;
  address.kind = Operand::kAddress;
  do {
    if (token_.kind == TokenKind::kInteger || At("-")) {
      address.offset += SignedInteger();
    } else {
      address.elements.push_back(ParseOperand(depth + 1));
      address.offset += address.elements.back().offset;
      address.elements.back().offset = 0;
    }
    while (!failed() && (At("+") || At("-"))) {
      Take("+");
      address.offset += SignedInteger();
    }
  } while (!failed() && Take(","));
  Expect("]");
  return address;
}

Operand Parser::ParseOperand(int depth) {
  Operand operand;
  if (depth > 4) {
    Fail("operands are nested too deeply");
    return operand;
  }
  if (Take("[")) return ParseAddress(depth);
  if (Take("{")) {
    operand.kind = Operand::kVector;
    operand.elements = ParseOperandList("}");
    return operand;
  }
  if (Take("!")) {
    operand = ParseNamed(Word("a predicate"));
    operand.negated = true;
    return operand;
  }
  const bool negative = Take("-");
  if (token_.kind == TokenKind::kInteger || token_.kind == TokenKind::kFloat || token_.kind == TokenKind::kDouble) {
    return ParseLiteral(negative);
  }
  if (token_.kind != TokenKind::kWord) {
    Fail(fmt::format("an operand is expected, not '{}'", token_.text));
    return operand;
  }
  operand = ParseNamed(Word("an operand"));
  operand.negated = negative;
  if (operand.kind == Operand::kSymbol && token_.kind == TokenKind::kPunctuation && At("(") && operand.name == "generic") {
    Advance();
    operand = ParseNamed(Word("a name"));
    Expect(")");
  }
  if ((operand.kind == Operand::kSymbol || operand.kind == Operand::kVariable) && (At("+") || At("-")) && depth == 0) {
    Take("+");
    operand.offset = SignedInteger();
  }
  if (Take("|")) {
    Operand pair;
    pair.kind = Operand::kPair;
    pair.elements.push_back(std::move(operand));
    pair.elements.push_back(ParseNamed(Word("a predicate")));
    return pair;
  }
  return operand;
}

}  // namespace tessera::emulator
