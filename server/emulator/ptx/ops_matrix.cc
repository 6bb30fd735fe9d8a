#include "server/emulator/ptx/lower.h"
namespace tessera::emulator {
std::span<const OpRow> MatrixOps() { return {}; }
}
