// Certificate, key and authority of the control API at tls://, for brokers, which read no files: read here, and handed over as
// memory. One thread.
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

// Reads the files that `options` names, or the environment, or the default. kPermissionDenied with what to do: one is missing or
// cannot be read, others may read the key. Whether they can be used only OpenSSL can say, so the broker does.
Result<HandedKeys> ReadControlKeys(const LinkOptions& options, uint64_t revision);

}  // namespace tessera
