// A connection to a gRPC service at tls://, for gRPC over a descriptor: the same handshake, checks and sentences as those of
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

// Who is to be there, for sentences.
struct RpcPeer {
  const char* what = "control API";                // what listens there
  const char* program = "tesserad's control API";  // whose certificate it is
};

class TlsTunnel {
 public:
  // Connects, or has `options` do it, until `deadline_ns` (MonotonicNs). Errors as of ConnectTls(). A thread carries what is said
  // from then on, until both ends are closed.
  static Result<std::shared_ptr<TlsTunnel>> Connect(const LinkAddress& address, const LinkOptions& options, const RpcPeer& peer,
                                                    uint64_t deadline_ns);

  // The plain end, once.
  UniqueFd TakeSocket() { return std::move(socket_); }
  // Why the other side has ended it; Ok: it has not, or without a word. Who was refused hears it behind his handshake.
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
