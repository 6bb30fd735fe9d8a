// Packed and narrow formats of cvt, which live with the half-precision family.
#pragma once

#include "server/emulator/ptx/lower/lower.h"

namespace tessera::emulator {

// Lowers cvt to or from a packed 16-bit or 8-bit format; false when the statement is another form of cvt.
bool LowerPackedConvert(Lowering& l);

}  // namespace tessera::emulator
