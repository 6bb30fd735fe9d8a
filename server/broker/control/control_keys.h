// What the control API shows and believes at tls://, as the daemon has read it.
#pragma once

#include <memory>

#include "protocol/base/status.h"
#include "protocol/link/tls/tls_identity.h"
#include "server/broker/call_queue.h"

namespace tessera {

// kPermissionDenied, with what to do: they cannot be used; kProtocolViolation: they are not what the message says. Any thread.
Result<std::shared_ptr<const TlsIdentity>> IdentityOf(const ControlKeys& keys);

}  // namespace tessera
