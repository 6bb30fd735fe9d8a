// What an attacker tries with the descriptors of a process that it has taken over: the server's log, and the terminal of whoever
// started it. They depend on what these are.
#pragma once

#include "tests/support/attempts.h"

namespace tessera {

// "hold-terminal": a descriptor is a terminal, or /dev/tty opens. "type-into-terminal": a line is typed for whoever reads it.
// "truncate-file INODE": a descriptor is of this file, and it is empty now. "flood-log": a line is written to each pipe,
// a million times. "die-with-last-words": the process says that these are its last words, as a driver does, and aborts.
const std::vector<Attempt>& LogAttempts();

}  // namespace tessera
