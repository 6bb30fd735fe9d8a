// A link over TCP and TLS 1.3. It is encrypted, and each end has shown a certificate that the other end's authority has signed.
//
//   client's host                          server's host
//   ConnectTls(address, options, deadline) TlsListener::Bind(address, options)
//                                          listener.Finish(listener.Accept(), deadline)
//
// Inside are the preamble and the frames of the TCP link. A connection ends with close_notify; without one it was cut.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_listener.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/link/tls/tls_tuning.h"

namespace tessera {

// Connects, shows the certificate of `options`, and checks the gateway's: it must be signed by the authority and for the host of
// `address`. The files are read for each connection. Errors of ConnectLink(). Any thread.
Result<std::unique_ptr<Link>> ConnectTls(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns,
                                         const TlsTuning& tuning = {});

// The other end of ConnectTls() for a connection that a listener took; `peer` begins with the name in the client's certificate.
// `progress` and errors as of LinkListener::Finish().
Result<AcceptedLink> AcceptTls(UniqueFd connection, const TlsIdentity& identity, uint64_t deadline_ns,
                               const TlsTuning& tuning = {}, const PeerProgress& progress = {});

class TlsListener : public LinkListener {
 public:
  // Errors of ListenForLinks(), TlsIdentity::Load() and TuningOf(). `bound`: a socket of TcpListener::Bind(); invalid: the
  // listener makes one.
  static Result<std::unique_ptr<TlsListener>> Bind(const LinkAddress& address, const LinkOptions& options, UniqueFd bound = {});

  int fd() const override { return tcp_.fd(); }
  const LinkAddress& address() const override { return tcp_.address(); }
  Result<UniqueFd> Accept() override { return tcp_.Accept(); }
  std::string DescribePeer(int connection) const override { return tcp_.DescribePeer(connection); }
  Result<AcceptedLink> Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) override;

 private:
  TlsListener(TcpListener tcp, std::unique_ptr<TlsIdentityKeeper> keeper, const TlsTuning& tuning)
      : tcp_(std::move(tcp)), keeper_(std::move(keeper)), tuning_(tuning) {}

  TcpListener tcp_;
  std::unique_ptr<TlsIdentityKeeper> keeper_;
  TlsTuning tuning_;
};

}  // namespace tessera
