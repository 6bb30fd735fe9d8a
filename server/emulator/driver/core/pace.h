// How long the commands of a stream take, beyond what they do here.
//
// With TESSERA_EMULATOR_SLOW=RATE a copy and a set take their bytes at RATE MB/s, a kernel nothing, and each of them 1 ms or
// more. The time passes on the stream's own thread, before the command reads or writes anything: whoever reads its destination
// too early sees the old bytes, and it reads the bytes that its source holds then. Commands of several streams take theirs at
// once. Nodes of a graph take it as well. Commands of other kinds (events, host functions, waits for values) take none.
#pragma once

#include "server/emulator/driver/core/command.h"

namespace tessera::emulator {

// Blocks for as long as `command`, which runs next, has to wait: its random pause and the time that it takes. Returns early when
// the context has failed or ends.
void Pace(const Context& context, const Command& command);

}  // namespace tessera::emulator
