// The placer's part of `tessera doctor`. Main thread.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints {"findings": [...]} (doctor_text.h) on stdout, also if the placer does not answer within 5 s. kExitOk; kExitInternal:
// the output could not be written.
int DoctorCommand(const PoolOptions& options);

}  // namespace tessera
