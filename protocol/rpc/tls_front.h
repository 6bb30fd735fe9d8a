// Where gRPC is served at tls://: shakes hands with whoever connects, and carries those who have proved a name between
// the network and a socket pair, whose other end gRPC gets. gRPC takes no descriptors under TLS, and makes no sockets in the
// sandbox.
//
//   TlsFront front(std::move(listener), "the control API", [&](UniqueFd socket, const CertificateDescription& shown) { ... return
//   is_taken;
//   }); front.Use(identity);        // any thread, again and again; nobody is accepted before front.Run();                // one
//   thread, for ever
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

namespace tessera {

class TlsFront {
 public:
  static constexpr size_t kNewcomersMax = 64;  // who have proved nothing: the oldest goes
  static constexpr uint64_t kFirstByteNs = 2'000'000'000;
  static constexpr uint64_t kHandshakeNs = 10'000'000'000;
  static constexpr uint64_t kPartingNs = 1'000'000'000;     // for whoever is turned away to hear why
  static constexpr size_t kHandshakeBytesMax = 256 * 1024;  // certificates of a chain, and nothing else that is long

  // In the thread of Run(), for each who has proved a name by this certificate: one end of the pair. False: not another one.
  using Proved = std::function<bool(UniqueFd socket, const CertificateDescription& shown)>;

  // `what`: for the log, as "the control API".
  static Result<std::unique_ptr<TlsFront>> Make(UniqueFd listener, std::string what, Proved proved);
  ~TlsFront();

  void Use(std::shared_ptr<const TlsIdentity> identity) EXCLUDES(mutex_);
  [[noreturn]] void Run();

 private:
  class Newcomer;

  TlsFront(UniqueFd listener, UniqueFd wake, std::string what, Proved proved);
  std::shared_ptr<const TlsIdentity> identity() EXCLUDES(mutex_);
  void Accept();
  // False: it goes.
  bool Tend(Newcomer& newcomer, short ready, uint64_t now_ns);
  // Makes it a pipe, or says why not.
  void Admit(Newcomer& newcomer, uint64_t now_ns);

  const UniqueFd listener_;
  const UniqueFd wake_;  // an eventfd: there is another identity
  const std::string what_;
  const Proved proved_;
  std::list<Newcomer> newcomers_;  // the oldest first
  std::list<TlsPipe> pipes_;

  Mutex mutex_;
  std::shared_ptr<const TlsIdentity> identity_ GUARDED_BY(mutex_);
};

}  // namespace tessera
