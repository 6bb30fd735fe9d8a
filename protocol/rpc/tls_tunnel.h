// A connection to a gRPC service at tls://, as a plain descriptor for gRPC. Handshake, checks and error sentences are those of
// connections to servers.
#pragma once

#include <memory>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/link/tls/tls_pipe.h"

namespace tessera {

// The words for the expected peer in error sentences.
struct RpcPeer {
  const char* what = "control API";                // what listens there
  const char* program = "tesserad's control API";  // whose certificate is expected
};

// One connection. failure(): any thread.
class TlsTunnel {
 public:
  // Connects to `address`, by `options.dial` if that is set, and does the handshake, until `deadline_ns` (MonotonicNs). Errors as
  // of ConnectTls(). Starts a thread that carries the bytes until both ends are closed.
  static Result<std::shared_ptr<TlsTunnel>> Connect(const LinkAddress& address, const LinkOptions& options, const RpcPeer& peer,
                                                    uint64_t deadline_ns);

  // The plain end, for gRPC. Call it once.
  UniqueFd TakeSocket() { return std::move(socket_); }
  // The reason that the other end gave in a TLS alert; Ok: it gave none. A server refuses a client only after the client has
  // finished its handshake, so Connect() may succeed all the same.
  Status failure() EXCLUDES(mutex_);

 private:
  TlsTunnel(LinkAddress address, RpcPeer peer, std::shared_ptr<const TlsIdentity> identity, UniqueFd socket)
      : address_(std::move(address)), peer_(peer), identity_(std::move(identity)), socket_(std::move(socket)) {}
  void Carry(TlsPipe pipe) EXCLUDES(mutex_);

  const LinkAddress address_;
  const RpcPeer peer_;
  const std::shared_ptr<const TlsIdentity> identity_;
  UniqueFd socket_;
  Mutex mutex_;
  Status failure_ GUARDED_BY(mutex_);
};

}  // namespace tessera
