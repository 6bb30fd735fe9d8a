#include "protocol/rpc/rpc_front.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <system_error>
#include <thread>
#include <utility>

#include "protocol/channel/unix_socket.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr int kShortageMs = 100;

[[noreturn]] void AcceptUsers(const UniqueFd& listener, const RpcFront::ServerOf& server_of, RpcConnections& connections) {
  for (;;) {
    pollfd ready{listener.get(), POLLIN, 0};
    poll(&ready, 1, -1);
    UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // Without free descriptors the loop would spin.
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) poll(nullptr, 0, kShortageMs);
      continue;
    }
    Result<PeerCredentials> peer = PeerOf(socket.get());
    if (!peer.ok()) continue;
    const std::string holder = UserHolder(peer->uid);
    connections.Take(server_of(holder), std::move(socket), holder, false);
  }
}

template <typename Body>
Status StartThread(Body body) {
  try {
    std::thread(std::move(body)).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread", error.code().value());
  }
  return Status::Ok();
}

}  // namespace

Status RpcFront::Listen(UniqueFd socket) {
  return StartThread([listener = std::move(socket), server_of = server_of_, &connections = connections_] {
    AcceptUsers(listener, server_of, connections);
  });
}

Result<TlsFront*> RpcFront::ListenByTls(UniqueFd socket, std::shared_ptr<const TlsIdentity> identity, std::string what) {
  Result<std::unique_ptr<TlsFront>> made = TlsFront::Make(
      std::move(socket), std::move(what),
      [server_of = server_of_, &connections = connections_](UniqueFd connection, const CertificateDescription& shown) {
        const std::string holder = NameHolder(shown.name);
        return connections.Take(server_of(holder), std::move(connection), holder, true, shown);
      });
  if (!made.ok()) return made.status();
  TlsFront* const front = made->release();  // lives as long as the process
  front->Use(std::move(identity));
  RETURN_IF_ERROR(StartThread([front] { front->Run(); }));
  by_tls_.push_back(front);
  return front;
}

Status RpcFront::Follow(std::unique_ptr<TlsIdentityKeeper> keeper) {
  return StartThread([fronts = by_tls_, keeper = std::shared_ptr<TlsIdentityKeeper>(std::move(keeper))] {
    for (std::shared_ptr<const TlsIdentity> used;; poll(nullptr, 0, kKeysMs)) {
      const std::shared_ptr<const TlsIdentity> now = keeper->Current();
      if (now == used) continue;
      used = now;
      for (TlsFront* const front : fronts) front->Use(used);
    }
  });
}

}  // namespace tessera
