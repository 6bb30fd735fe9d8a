// `tessera keys renew`: a new certificate from the placer, in the place of the one that ends.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// What it is now is printed on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int KeysRenewCommand(const PoolOptions& options);

}  // namespace tessera
