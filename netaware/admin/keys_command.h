// `tessera keys renew`: replaces a certificate that is about to end by a new one from the placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints a description of the new certificate on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int KeysRenewCommand(const PoolOptions& options);

}  // namespace tessera
