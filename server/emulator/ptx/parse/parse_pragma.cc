// Pragmas. One is the emulator's own: how long a kernel occupies the device (../README.md).
// Source: PTX ISA 9.0, "Pragma Strings".
#include <fmt/core.h>

#include <algorithm>

#include "server/emulator/ptx/parse/parser_impl.h"

namespace tessera::emulator {
namespace {

constexpr std::string_view kDuration = "tessera_us";

std::string_view WithoutBlanks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

void Parser::ParsePragma(FunctionDecl* function) {
  Advance();
  for (; token_.kind != TokenKind::kEnd && !At(";"); Advance()) {
    if (token_.kind != TokenKind::kString) continue;
    const std::string_view text = WithoutBlanks(token_.text.substr(1, token_.text.size() - 2));
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    if (text.substr(0, end) == kDuration) ParseDuration(function, WithoutBlanks(text.substr(end)));
  }
  Expect(";");
}

void Parser::ParseDuration(FunctionDecl* function, std::string_view parameter) {
  const size_t count = function != nullptr && function->is_entry ? function->formals.size() : 0;
  for (size_t i = 0; i < count; ++i) {
    if (function->formals[i].is_register) continue;
    const VariableDecl& variable = function->variables[function->formals[i].index];
    const bool is_number = (variable.type == kU32 || variable.type == kU64) && variable.size_bytes == variable.type.size_bytes;
    if (!is_number || variable.name != parameter) continue;
    function->duration_formal = static_cast<int32_t>(i);
    return;
  }
  Fail(fmt::format("pragma {} names '{}', which is no .u32 or .u64 parameter of a kernel that it stands in", kDuration,
                   parameter));
}

}  // namespace tessera::emulator
