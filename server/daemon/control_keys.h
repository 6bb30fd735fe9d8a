// Certificate, key and authority of the control API at tls://. Brokers read no files, so the daemon reads these and hands them
// over as memory. One thread.
#pragma once

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link_options.h"
#include "server/gate/broker_line.h"

namespace tessera {

struct HandedKeys {
  ControlKeysMessage message;
  UniqueFd texts;  // sealed
};

// Reads the files of `options`, of the environment, or the default ones. kPermissionDenied with what to do: a file is missing or
// cannot be read, or others may read the key. Only OpenSSL can say whether they are usable, so the broker checks that.
Result<HandedKeys> ReadControlKeys(const LinkOptions& options, uint64_t revision);

}  // namespace tessera
