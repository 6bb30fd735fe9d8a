#include "protocol/rpc/tls_tunnel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_words.h"

namespace tessera {
namespace {

constexpr int kCloseNotify = 0;
constexpr const char* kProtocol = "h2";

TlsParties PartiesOf(const TlsIdentity& identity, const LinkAddress& address, const RpcPeer& peer) {
  return {.us = identity, .address = &address, .what = peer.what, .program = peer.program};
}

}  // namespace

Result<std::shared_ptr<TlsTunnel>> TlsTunnel::Connect(const LinkAddress& address, const LinkOptions& options, const RpcPeer& peer,
                                                      uint64_t deadline_ns) {
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(TlsRole::kClient, options, kProtocol);
  if (!identity.ok()) return identity.status();
  Result<UniqueFd> network =
      options.dial ? options.dial(deadline_ns) : ConnectTcpSocket(address, true, deadline_ns, peer.program);
  if (!network.ok()) return network.status();
  Result<TlsSession> session = ShakeHands(network->get(), PartiesOf(**identity, address, peer), deadline_ns);
  if (!session.ok()) {
    // Replaces these two errors by those of a failed TCP connection, which name the address.
    if (session.status().code() == StatusCode::kTimedOut) return NoAnswer(address);
    return session.status().code() == StatusCode::kUnavailable ? NoGateway(address, peer.program) : session.status();
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return Status::FromErrno("cannot make a pair of sockets", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const std::shared_ptr<TlsTunnel> tunnel(new TlsTunnel(address, peer, std::move(*identity), std::move(theirs)));
  TlsPipe pipe(std::move(*network), std::move(ours), *session);
  try {
    std::thread([tunnel, pipe = std::move(pipe)]() mutable { tunnel->Carry(std::move(pipe)); }).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread", error.code().value());
  }
  return tunnel;
}

Status TlsTunnel::failure() {
  MutexLock lock(mutex_);
  return failure_;
}

void TlsTunnel::Carry(TlsPipe pipe) {
  std::vector<pollfd> ready;
  while (pipe.Move(ready, MonotonicNs())) {
    if (pipe.alert() > kCloseNotify) {
      // Set before gRPC sees the end of the connection, so that failure() explains it.
      MutexLock lock(mutex_);
      failure_ = DescribeAlert(PartiesOf(*identity_, address_, peer_), pipe.alert());
    }
    ready.clear();
    pipe.Watch(&ready);
    const uint64_t again_ns = pipe.again_ns(), now_ns = MonotonicNs();
    const int wait_ms = again_ns == kNoDeadline ? -1
                        : again_ns <= now_ns    ? 0
                                                : static_cast<int>((again_ns - now_ns) / 1'000'000 + 1);
    poll(ready.data(), ready.size(), wait_ms);
  }
}

}  // namespace tessera
