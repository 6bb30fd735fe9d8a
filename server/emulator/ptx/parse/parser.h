// Parses one PTX text into a Unit. Untrusted input: every text ends in a Unit or a Status, whatever it holds.
#pragma once

#include <memory>
#include <string_view>

#include "protocol/base/status.h"
#include "server/emulator/ptx/parse/ast.h"

namespace tessera::emulator {

// Errors: kInvalidArgument, "ptx line N: what".
Result<std::unique_ptr<Unit>> ParsePtx(std::string_view text);

}  // namespace tessera::emulator
