#include "protocol/link/tls/tls_handshake.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "protocol/base/check.h"
#include "protocol/link/preamble.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_observed.h"

namespace tessera {
namespace {

// Most that the peer may send in all: certificates of a chain, and nothing else that is long.
constexpr size_t kHandshakeBytesMax = size_t{256} << 10;

// An alert in the clear: fatal, "unexpected message" (RFC 8446, 6). Understood by a plain peer as "here is TLS"
// (tcp_connection.cc).
constexpr uint8_t kPlainAlert[] = {0x15, 0x03, 0x03, 0, 2, 2, 10};

}  // namespace

TlsHandshake::TlsHandshake(const TlsParties& parties)
    : parties_(parties), ssl_(SSL_new(parties.us.context()), SSL_free), observed_(std::make_unique<TlsObserved>()) {
  CHECK(ssl_ != nullptr);
  observed_->Watch(ssl_.get());
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  CHECK(in != nullptr && out != nullptr);
  SSL_set_bio(ssl_.get(), in, out);
  if (!parties_.client()) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  const std::string& host = parties_.address->host;
  X509_VERIFY_PARAM* expected = SSL_get0_param(ssl_.get());
  X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (IsIpAddress(host)) {
    CHECK(X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1);
  } else {
    CHECK(X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size()) == 1);
    SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
  }
}

TlsHandshake::~TlsHandshake() { TlsObserved::Leave(ssl_.get()); }

Status TlsHandshake::Take(std::span<const std::byte> bytes) {
  CHECK(!done_);
  if (!bytes.empty()) BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    done_ = true;
    // Records that follow are not OpenSSL's: it must have none in its own buffer.
    if (SSL_has_pending(ssl_.get()) == 0 && observed_->client_known && observed_->server_known) return Status::Ok();
    return Status(StatusCode::kInternal,
                  "this version of OpenSSL does not hand over what a link needs: install the one that tessera was built with");
  }
  return SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ ? Status::Ok() : Describe();
}

Status TlsHandshake::Describe() {
  // Of several errors the first is the cause.
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (observed_->refused != X509_V_OK)
    return DescribeRefusedCertificate(parties_, observed_->refused, observed_->failed, observed_->leaf);
  return DescribeFailedHandshake(parties_, ERR_GET_REASON(error));
}

std::vector<std::byte> TlsHandshake::Outgoing() {
  BIO* out = SSL_get_wbio(ssl_.get());
  std::vector<std::byte> bytes(BIO_ctrl_pending(out));
  if (!bytes.empty()) CHECK(BIO_read(out, bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size()));
  return bytes;
}

TlsSession TlsHandshake::Finish() {
  CHECK(done_);
  TlsSession session;
  session.client = parties_.client();
  session.sending = parties_.client() ? observed_->client : observed_->server;
  session.receiving = parties_.client() ? observed_->server : observed_->client;
  BIO* in = SSL_get_rbio(ssl_.get());
  session.received.resize(BIO_ctrl_pending(in));
  if (!session.received.empty()) BIO_read(in, session.received.data(), static_cast<int>(session.received.size()));
  session.peer = DescribeCertificate(*SSL_get0_peer_certificate(ssl_.get()));  // there is one: it was verified
  session.ssl = ssl_;
  return session;
}

namespace {

Status SendAll(int socket, std::span<const std::byte> bytes, uint64_t deadline_ns) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(AwaitSocket(socket, POLLOUT, deadline_ns));
    } else if (errno != EINTR) {
      return DescribeTcpLoss(errno);
    }
  }
  return Status::Ok();
}

// Something of what the peer says, at least a byte.
Result<size_t> ReceiveSome(int socket, std::span<std::byte> to, uint64_t deadline_ns) {
  for (;;) {
    const ssize_t got = recv(socket, to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return DescribeTcpLoss(ECONNRESET);
    if (errno == EAGAIN) {
      RETURN_IF_ERROR(AwaitSocket(socket, POLLIN, deadline_ns));
    } else if (errno != EINTR) {
      return DescribeTcpLoss(errno);
    }
  }
}

bool IsPlainLink(std::span<const std::byte> begin) {
  constexpr uint32_t kMagic = Preamble::kMagic;
  return begin.size() >= sizeof(kMagic) && std::memcmp(begin.data(), &kMagic, sizeof(kMagic)) == 0;
}

Status MetPlainLink(const TlsParties& parties) {
  if (parties.client()) {
    return Status(StatusCode::kProtocolViolation,
                  parties.Peer() + " speaks plain TCP: give it a certificate and let it --listen to tls://, or write tcp://");
  }
  return Status(StatusCode::kProtocolViolation, "the peer speaks plain TCP, and this address is tls://: let it use that");
}

// Sends what the peer is to hear of a failure, so that it arrives.
Status GiveUp(int socket, std::span<const std::byte> words, Status why, uint64_t deadline_ns) {
  (void)SendAll(socket, words, deadline_ns).ok();
  shutdown(socket, SHUT_WR);
  LingerOnSocket(socket);
  return why;
}

}  // namespace

Result<TlsSession> ShakeHands(int socket, const TlsParties& parties, uint64_t deadline_ns,
                              const std::function<void()>& understood) {
  TlsHandshake handshake(parties);
  std::vector<std::byte> bytes(kTlsBodyBytesMax);
  size_t taken = 0;
  bool is_understood = false;
  Status status = handshake.Take({});
  for (;;) {
    const std::vector<std::byte> outgoing = handshake.Outgoing();
    if (!status.ok()) return GiveUp(socket, outgoing, status, deadline_ns);
    if (taken != 0 && !is_understood && !outgoing.empty()) {
      is_understood = true;
      understood();
    }
    RETURN_IF_ERROR(SendAll(socket, outgoing, deadline_ns));
    if (handshake.done()) return handshake.Finish();
    Result<size_t> got = ReceiveSome(socket, bytes, deadline_ns);
    if (!got.ok()) return got.status();
    const std::span<const std::byte> more = std::span<const std::byte>(bytes).first(*got);
    if (taken == 0 && IsPlainLink(more))
      return GiveUp(socket, std::as_bytes(std::span(kPlainAlert)), MetPlainLink(parties), deadline_ns);
    taken += *got;
    if (taken > kHandshakeBytesMax)
      return Status(StatusCode::kProtocolViolation, parties.Peer() + " sent a handshake without end");
    status = handshake.Take(more);
  }
}

}  // namespace tessera
