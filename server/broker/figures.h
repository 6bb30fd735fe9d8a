// What the daemon tells of a GPU's vGPUs, to whoever asks a server how it is.
#pragma once

#include "server/broker/gpu.h"
#include "server/gate/broker_line.h"

namespace tessera {

// Adds how this GPU is divided, and what each of its vGPUs got. One thread, the broker's.
void AddFigures(const Gpu& gpu, int64_t now_ns, FiguresMessage* figures);

}  // namespace tessera
