// Parses one PTX text into a Unit. Untrusted input: every text ends in a Unit or a Status, whatever it holds.
#pragma once

#include <memory>
#include <string_view>

#include "protocol/base/status.h"
#include "server/emulator/ptx/parse/ast.h"

namespace tessera::emulator {

// Bounds of what one text may declare; far above what compilers write.
inline constexpr uint64_t kMaxRegisters = 1u << 20;
inline constexpr uint64_t kMaxVariableBytes = 1ull << 32;

// Errors: kInvalidArgument, "ptx line N: what".
Result<std::unique_ptr<Unit>> ParsePtx(std::string_view text);

}  // namespace tessera::emulator
