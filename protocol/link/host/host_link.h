// Links that never leave the host, whatever the caller allows.
#pragma once

#include <cstdint>
#include <memory>

#include "protocol/link/link_address.h"
#include "protocol/link/link_listener.h"

namespace tessera {

// As ConnectTcp() without `insecure`.
Result<std::unique_ptr<Link>> ConnectHost(const LinkAddress& address, uint64_t deadline_ns);
// As TcpListener::Bind() without `insecure`.
Result<std::unique_ptr<LinkListener>> ListenHost(const LinkAddress& address);

}  // namespace tessera
