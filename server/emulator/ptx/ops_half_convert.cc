#include "server/emulator/ptx/half_ops.h"
namespace tessera::emulator {
bool LowerPackedConvert(Lowering&) { return false; }
}
