#include "protocol/link/host/host_link.h"

#include <utility>

#include "protocol/link/tcp/tcp_link.h"

namespace tessera {

Result<std::unique_ptr<Link>> ConnectHost(const LinkAddress& address, uint64_t deadline_ns) {
  return ConnectTcp(address, false, deadline_ns);
}

Result<std::unique_ptr<LinkListener>> ListenHost(const LinkAddress& address) {
  Result<TcpListener> listener = TcpListener::Bind(address, false);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<LinkListener>(std::make_unique<TcpListener>(std::move(*listener)));
}

}  // namespace tessera
