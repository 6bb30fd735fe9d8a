#include "server/emulator/ptx/compare.h"
#include "server/emulator/ptx/half.h"
#include "server/emulator/ptx/lanes.h"
namespace tessera::emulator {
std::span<const OpRow> HalfOps() { return {}; }
void LowerSetpPacked(Lowering& l, Type, bool, uint8_t) { l.Unknown(); }
void LowerSetPacked(Lowering& l, Type, Type, bool, uint8_t) { l.Unknown(); }
}
