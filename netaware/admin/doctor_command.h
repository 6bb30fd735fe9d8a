// What `tessera doctor` asks a placer. The main thread's.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints {"findings": [...]} (doctor_text.h) on stdout: of a placer that does not answer within 5 s too. kExitOk; kExitInternal:
// it could not be printed.
int DoctorCommand(const PoolOptions& options);

}  // namespace tessera
