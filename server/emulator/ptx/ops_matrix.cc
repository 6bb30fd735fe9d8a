// Matrix instructions (mma, ldmatrix): none yet, so a kernel that uses them is refused at launch by the instruction's name.
#include "server/emulator/ptx/lower.h"

namespace tessera::emulator {

std::span<const OpRow> MatrixOps() { return {}; }

}  // namespace tessera::emulator
