#include "protocol/link/tls/tls_link.h"

#include <openssl/ssl.h>

#include "protocol/base/printable.h"
#include "protocol/link/preamble.h"
#include "protocol/link/stream_link.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_stream.h"

namespace tessera {
namespace {

class TlsLink : public StreamLink {
 public:
  explicit TlsLink(std::unique_ptr<TlsStream> stream) : stream_(std::move(stream)) {}

  void Close() override { stream_->Close(); }
  void Drop() override { stream_->Drop(); }

 private:
  Status Write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    return stream_->Send(first, second);
  }
  Status Fill(std::span<std::byte> to) override { return stream_->Fill(to); }

  const std::unique_ptr<TlsStream> stream_;
};

Status SendPreamble(TlsStream& stream) {
  const Preamble ours;
  return stream.Send(std::as_bytes(std::span(&ours, 1)), {});
}

// What the peer says first; an alert of it, if it does not want to have to do with us.
Result<Preamble> ReceivePreamble(TlsStream& stream, const TlsParties& parties) {
  Preamble theirs;
  const Status received = stream.Fill(std::as_writable_bytes(std::span(&theirs, 1)));
  if (stream.alert() > SSL_AD_CLOSE_NOTIFY) return DescribeAlert(parties, stream.alert());
  if (!received.ok()) return received;
  return theirs;
}

// The stream of a connected socket, whose handshake has to be over in time. Fills in `*peer`.
Result<std::unique_ptr<TlsStream>> MakeStream(UniqueFd socket, const TlsParties& parties, uint64_t deadline_ns,
                                              const TlsTuning& tuning, CertificateDescription* peer) {
  Result<TlsSession> session = ShakeHands(socket.get(), parties, deadline_ns);
  if (!session.ok()) return session.status();
  *peer = session->peer;
  Result<std::unique_ptr<TcpStream>> tcp = TcpStream::Make(std::move(socket));
  if (!tcp.ok()) return tcp.status();
  auto stream = std::make_unique<TlsStream>(std::move(*tcp), *session, tuning);
  stream->SetDeadline(deadline_ns);
  return stream;
}

Result<std::unique_ptr<Link>> ConnectOnce(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns,
                                          const TlsTuning& tuning, bool* hung_up) {
  *hung_up = false;
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(TlsRole::kClient, options);
  if (!identity.ok()) return identity.status();
  // Nobody on the way can read or change anything: any address will do.
  Result<UniqueFd> socket = ConnectTcpSocket(address, true, deadline_ns);
  if (!socket.ok()) return socket.status();
  const TlsParties parties = {**identity, &address};
  // Of a failure that the network has no sentence for.
  const auto described = [&](const Status& status) {
    *hung_up = status.code() == StatusCode::kUnavailable;
    if (status.code() == StatusCode::kTimedOut) return NoAnswer(address);
    return status.code() == StatusCode::kUnavailable ? NoGateway(address) : status;
  };
  CertificateDescription peer;
  Result<std::unique_ptr<TlsStream>> stream = MakeStream(std::move(*socket), parties, deadline_ns, tuning, &peer);
  if (!stream.ok()) return described(stream.status());
  // A gateway that refuses us says so, whether it takes the preamble or not.
  (void)SendPreamble(**stream).ok();
  Result<Preamble> theirs = ReceivePreamble(**stream, parties);
  if (!theirs.ok()) return described(theirs.status());
  if (theirs->magic != Preamble::kMagic) return NoGateway(address);
  RETURN_IF_ERROR(CheckLinkVersion("gateway", *theirs));
  (*stream)->SetDeadline(kNoDeadline);
  return std::unique_ptr<Link>(std::make_unique<TlsLink>(std::move(*stream)));
}

}  // namespace

Result<std::unique_ptr<Link>> ConnectTls(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns,
                                         const TlsTuning& tuning) {
  return ConnectAgain(deadline_ns,
                      [&](uint64_t until_ns, bool* hung_up) { return ConnectOnce(address, options, until_ns, tuning, hung_up); });
}

Result<AcceptedLink> AcceptTls(UniqueFd connection, const TlsIdentity& identity, uint64_t deadline_ns, const TlsTuning& tuning,
                               const LinkListener::Proved& proved) {
  const std::string from = DescribeTcpPeer(connection.get());
  const TlsParties parties = {identity, nullptr};
  CertificateDescription peer;
  Result<std::unique_ptr<TlsStream>> stream = MakeStream(std::move(connection), parties, deadline_ns, tuning, &peer);
  if (!stream.ok()) return stream.status();
  if (!identity.Allows(peer)) {
    (*stream)->Refuse(SSL_AD_ACCESS_DENIED);
    return DescribeNotAllowed(peer);
  }
  proved();
  Result<Preamble> theirs = ReceivePreamble(**stream, parties);
  if (!theirs.ok()) return theirs.status();
  if (theirs->magic != Preamble::kMagic) {
    return Status(StatusCode::kProtocolViolation, "the peer is no tessera: it sent something else than a preamble");
  }
  RETURN_IF_ERROR(SendPreamble(**stream));
  RETURN_IF_ERROR(CheckLinkVersion("client", *theirs));
  (*stream)->SetDeadline(kNoDeadline);
  return AcceptedLink{std::make_unique<TlsLink>(std::move(*stream)), Printable(peer.name) + " (" + from + ")", peer.name};
}

// --- TlsListener ---

Result<std::unique_ptr<TlsListener>> TlsListener::Bind(const LinkAddress& address, const LinkOptions& options, UniqueFd bound) {
  Result<std::unique_ptr<TlsIdentityKeeper>> keeper = TlsIdentityKeeper::Make(TlsRole::kServer, options);
  if (!keeper.ok()) return keeper.status();
  Result<TcpListener> tcp = bound.valid() ? TcpListener::Adopt(std::move(bound), address) : TcpListener::Bind(address, true);
  if (!tcp.ok()) return tcp.status();
  return std::unique_ptr<TlsListener>(new TlsListener(std::move(*tcp), std::move(*keeper)));
}

Result<AcceptedLink> TlsListener::Finish(UniqueFd connection, uint64_t deadline_ns, const Proved& proved) {
  return AcceptTls(std::move(connection), *keeper_->Current(), deadline_ns, {}, proved);
}

}  // namespace tessera
