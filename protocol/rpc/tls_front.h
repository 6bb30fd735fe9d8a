// Serves gRPC at tls://. Does the TLS handshake with each client, then carries the bytes of those that proved a name between the
// network and a socket pair. gRPC gets the other end of the pair: it cannot put TLS on a descriptor, and the sandbox lets it make
// no sockets.
//
//   Result<std::unique_ptr<TlsFront>> front = TlsFront::Make(std::move(listener), "the control API", proved);
//   (*front)->Use(identity);   // any thread, any number of times; no connection is accepted before the first
//   (*front)->Run();           // in one thread, for ever
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/link/tls/tls_pipe.h"
#include "protocol/relay/strangers.h"

namespace tessera {

class TlsFront {
 public:
  // Connections that have proved nothing. Beyond these the oldest of them is closed, of those first whose words were not right
  // yet (protocol/relay/strangers.h).
  static constexpr StrangerBounds kNewcomers{.per_source = 64, .in_all = 256};
  static constexpr uint64_t kFirstByteNs = 2'000'000'000;   // for a client's first byte
  static constexpr uint64_t kHandshakeNs = 10'000'000'000;  // for the whole handshake
  static constexpr uint64_t kPartingNs = 1'000'000'000;     // for a refused client to read the reason
  // Room for a chain of certificates; nothing else in it is long. Of all newcomers 16 MiB: half of what calls may take.
  static constexpr size_t kHandshakeBytesMax = 64 * 1024;

  // Called in the thread of Run() for each client that proved a name. `socket`: the plain end of the pair; `shown`: the client's
  // certificate. False: there are too many, and the connection is closed.
  using Proved = std::function<bool(UniqueFd socket, const CertificateDescription& shown)>;

  // `listener`: a listening TCP socket. `what`: the service's name for the log. Error: no eventfd can be made.
  static Result<std::unique_ptr<TlsFront>> Make(UniqueFd listener, std::string what, Proved proved);
  ~TlsFront();

  void Use(std::shared_ptr<const TlsIdentity> identity) EXCLUDES(mutex_);
  [[noreturn]] void Run();

 private:
  class Newcomer;

  TlsFront(UniqueFd listener, UniqueFd wake, std::string what, Proved proved);
  std::shared_ptr<const TlsIdentity> identity() EXCLUDES(mutex_);
  // Takes some of those who wait. False: descriptors have run out.
  bool Accept();
  void Drop(Strangers::Id id);
  // Handles what poll() found. False: the newcomer is to be removed.
  bool Tend(Newcomer& newcomer, short ready, uint64_t now_ns);
  // Turns a newcomer that proved a name into a pipe, or refuses it with a reason.
  void Admit(Newcomer& newcomer, uint64_t now_ns);

  const UniqueFd listener_;
  const UniqueFd wake_;  // an eventfd: Use() has set another identity
  const std::string what_;
  const Proved proved_;
  std::list<Newcomer> newcomers_;
  Strangers strangers_{kNewcomers};  // of newcomers, by their addresses
  std::list<TlsPipe> pipes_;

  Mutex mutex_;
  std::shared_ptr<const TlsIdentity> identity_ GUARDED_BY(mutex_);
};

}  // namespace tessera
