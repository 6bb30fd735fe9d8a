#include "protocol/link/tls/tls_link.h"

#include <openssl/ssl.h>

#include "protocol/base/printable.h"
#include "protocol/link/preamble.h"
#include "protocol/link/stream_link.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_openssl_stream.h"
#include "protocol/link/tls/tls_stream.h"

namespace tessera {
namespace {

class TlsLink : public StreamLink {
 public:
  explicit TlsLink(std::unique_ptr<TlsBytes> stream) : stream_(std::move(stream)) {}

  void Close() override { stream_->Close(); }
  void Drop() override { stream_->Drop(); }

 private:
  Status Write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    return stream_->Send(first, second);
  }
  Status Fill(std::span<std::byte> to) override { return stream_->Fill(to); }

  const std::unique_ptr<TlsBytes> stream_;
};

Status SendPreamble(TlsBytes& stream) {
  const Preamble ours;
  return stream.Send(std::as_bytes(std::span(&ours, 1)), {});
}

// What the peer says first; an alert of it, if it does not want to have to do with us.
Result<Preamble> ReceivePreamble(TlsBytes& stream, const TlsParties& parties) {
  Preamble theirs;
  const Status received = stream.Fill(std::as_writable_bytes(std::span(&theirs, 1)));
  if (stream.alert() > SSL_AD_CLOSE_NOTIFY) return DescribeAlert(parties, stream.alert());
  if (!received.ok()) return received;
  return theirs;
}

// A connected socket whose handshake is over.
struct Met {
  std::unique_ptr<TcpStream> tcp;
  TlsSession session;

  std::unique_ptr<TlsBytes> Stream(const TlsTuning& tuning) {
    if (tuning.openssl) return std::make_unique<TlsOpensslStream>(std::move(tcp), session, tuning);
    return std::make_unique<TlsStream>(std::move(tcp), session, tuning);
  }
};

// Shakes hands on a connected socket, in time.
Result<Met> Meet(UniqueFd socket, const TlsParties& parties, uint64_t deadline_ns, const PeerProgress& progress = {}) {
  Result<TlsSession> session = ShakeHands(socket.get(), parties, deadline_ns, [&] { progress.Understood(); });
  if (!session.ok()) return session.status();
  Result<std::unique_ptr<TcpStream>> tcp = TcpStream::Make(std::move(socket));
  if (!tcp.ok()) return tcp.status();
  (*tcp)->SetDeadline(deadline_ns);
  return Met{std::move(*tcp), std::move(*session)};
}

Result<std::unique_ptr<Link>> ConnectOnce(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns,
                                          const TlsTuning& tuning, bool* hung_up) {
  *hung_up = false;
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(TlsRole::kClient, options);
  if (!identity.ok()) return identity.status();
  // Nobody on the way can read or change anything: any address will do.
  Result<UniqueFd> socket = options.dial ? options.dial(deadline_ns) : ConnectTcpSocket(address, true, deadline_ns);
  if (!socket.ok()) return socket.status();
  const TlsParties parties = {**identity, &address};
  // Of a failure that the network has no sentence for.
  const auto described = [&](const Status& status) {
    *hung_up = status.code() == StatusCode::kUnavailable;
    if (status.code() == StatusCode::kTimedOut) return NoAnswer(address);
    return status.code() == StatusCode::kUnavailable ? NoGateway(address) : status;
  };
  Result<Met> met = Meet(std::move(*socket), parties, deadline_ns);
  if (!met.ok()) return described(met.status());
  std::unique_ptr<TlsBytes> stream = met->Stream(tuning);
  // A gateway that refuses us says so, whether it takes the preamble or not.
  (void)SendPreamble(*stream).ok();
  Result<Preamble> theirs = ReceivePreamble(*stream, parties);
  if (!theirs.ok()) return described(theirs.status());
  if (theirs->magic != Preamble::kMagic) return NoGateway(address);
  RETURN_IF_ERROR(CheckLinkVersion("gateway", *theirs));
  stream->SetDeadline(kNoDeadline);
  return std::unique_ptr<Link>(std::make_unique<TlsLink>(std::move(stream)));
}

}  // namespace

Result<std::unique_ptr<Link>> ConnectTls(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns,
                                         const TlsTuning& tuning) {
  Result<TlsTuning> wanted = TuningOf(options, tuning);
  if (!wanted.ok()) return wanted.status();
  return ConnectAgain(
      deadline_ns, [&](uint64_t until_ns, bool* hung_up) { return ConnectOnce(address, options, until_ns, *wanted, hung_up); });
}

Result<AcceptedLink> AcceptTls(UniqueFd connection, const TlsIdentity& identity, uint64_t deadline_ns, const TlsTuning& tuning,
                               const PeerProgress& progress) {
  const std::string from = DescribeTcpPeer(connection.get());
  const TlsParties parties = {identity, nullptr};
  Result<Met> met = Meet(std::move(connection), parties, deadline_ns, progress);
  if (!met.ok()) return met.status();
  const CertificateDescription peer = met->session.peer;
  if (!identity.Allows(peer)) {
    // OpenSSL's records have no alert for this.
    TlsStream(std::move(met->tcp), met->session, tuning).Refuse(SSL_AD_ACCESS_DENIED);
    return DescribeNotAllowed(peer);
  }
  progress.Proved();
  std::unique_ptr<TlsBytes> stream = met->Stream(tuning);
  Result<Preamble> theirs = ReceivePreamble(*stream, parties);
  if (!theirs.ok()) return theirs.status();
  if (theirs->magic != Preamble::kMagic) {
    return Status(StatusCode::kProtocolViolation, "the peer is no tessera: it sent something else than a preamble");
  }
  RETURN_IF_ERROR(SendPreamble(*stream));
  RETURN_IF_ERROR(CheckLinkVersion("client", *theirs));
  stream->SetDeadline(kNoDeadline);
  return AcceptedLink{std::make_unique<TlsLink>(std::move(stream)), Printable(peer.name) + " (" + from + ")", peer.name};
}

// --- TlsListener ---

Result<std::unique_ptr<TlsListener>> TlsListener::Bind(const LinkAddress& address, const LinkOptions& options, UniqueFd bound) {
  Result<TlsTuning> tuning = TuningOf(options);
  if (!tuning.ok()) return tuning.status();
  Result<std::unique_ptr<TlsIdentityKeeper>> keeper = TlsIdentityKeeper::Make(TlsRole::kServer, options);
  if (!keeper.ok()) return keeper.status();
  Result<TcpListener> tcp = bound.valid() ? TcpListener::Adopt(std::move(bound), address) : TcpListener::Bind(address, true);
  if (!tcp.ok()) return tcp.status();
  return std::unique_ptr<TlsListener>(new TlsListener(std::move(*tcp), std::move(*keeper), *tuning));
}

Result<AcceptedLink> TlsListener::Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) {
  return AcceptTls(std::move(connection), *keeper_->Current(), deadline_ns, tuning_, progress);
}

}  // namespace tessera
