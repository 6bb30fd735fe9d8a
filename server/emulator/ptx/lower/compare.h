// The packed half-precision forms of set and setp, which live with the half-precision family.
#pragma once

#include "server/emulator/ptx/lower/lower.h"

namespace tessera::emulator {

// `combine`: 0 none, 1 and, 2 or, 3 xor. The comparison operator is still among the modifiers.
void LowerSetpPacked(Lowering& l, Type type, bool ftz, uint8_t combine);
void LowerSetPacked(Lowering& l, Type result, Type type, bool ftz, uint8_t combine);

}  // namespace tessera::emulator
