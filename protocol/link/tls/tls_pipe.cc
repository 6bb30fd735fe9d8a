#include "protocol/link/tls/tls_pipe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <array>

#include "protocol/base/check.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tls/tls_openssl.h"
#include "protocol/link/tls/tls_records.h"
#include "protocol/link/tls/tls_tuning.h"

namespace tessera {
namespace {

// Records that one Move() takes each way. Who carries many connections comes round to each in milliseconds, however much the
// others have to say.
constexpr int kTurnsMax = 2;

enum class Got { kBytes, kNothing, kEnd };

Got Receive(int socket, std::vector<std::byte>* room, size_t* bytes) {
  for (;;) {
    const ssize_t got = recv(socket, room->data(), room->size(), MSG_DONTWAIT);
    if (got > 0) {
      *bytes = static_cast<size_t>(got);
      return Got::kBytes;
    }
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && errno == EAGAIN ? Got::kNothing : Got::kEnd;
  }
}

}  // namespace

TlsPipe::TlsPipe(UniqueFd network, UniqueFd plain, const TlsSession& session)
    : network_(std::move(network)), plain_(std::move(plain)), ssl_(session.ssl), room_(kTlsPlainBytesMax) {
  CHECK(ssl_ != nullptr);
  // gRPC writes a message in parts; the network would keep the last one until the first is acknowledged, for 40 ms. (A pair of
  // Unix sockets has no such option.)
  constexpr int kOn = 1;
  setsockopt(network_.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
  if (!session.received.empty())
    BIO_write(SSL_get_rbio(ssl_.get()), session.received.data(), static_cast<int>(session.received.size()));
  more_ = !session.received.empty();
}

bool TlsPipe::hears() const {
  // What OpenSSL answers by itself to new keys is bounded by this, too.
  return !network_over_ && opened_.empty() && sealed_.empty();
}

void TlsPipe::Watch(std::vector<pollfd>* ready) const {
  // Who has hung up is told again and again: an entry that waits for nothing else is left out.
  const int network = (hears() ? POLLIN : 0) | (!network_broken_ && !sealed_.empty() ? POLLOUT : 0);
  ready->push_back({network != 0 ? network_.get() : -1, static_cast<short>(network), 0});
  const bool takes = !plain_over_ && !network_broken_ && sealed_.empty() && unsealed_.empty();
  const int plain = (takes ? POLLIN : 0) | (!plain_broken_ && !opened_.empty() ? POLLOUT : 0);
  // That the process has ended counts while the peer reads nothing, too.
  ready->push_back({plain != 0 || end_ns_ == 0 ? plain_.get() : -1, static_cast<short>(plain), 0});
}

uint64_t TlsPipe::again_ns() const {
  if (more_ || (network_over_ && opened_.empty() && !said_plain_)) return 0;
  return end_ns_ != 0 ? end_ns_ : kNoDeadline;
}

bool TlsPipe::Move(std::span<const pollfd> ready, uint64_t now_ns) {
  const bool hung_up = ready.size() == kWatched && (ready[1].revents & (POLLHUP | POLLERR)) != 0;
  if (hung_up && end_ns_ == 0) end_ns_ = now_ns + kEndNs;
  // Not in the turn in which it ended: whoever moves this sees alert() before the process sees the end.
  if (network_over_ && opened_.empty() && !said_plain_) {
    said_plain_ = true;
    shutdown(plain_.get(), SHUT_WR);
  }
  more_ = true;
  for (int turn = 0; turn < kTurnsMax && more_; ++turn) {
    // What was left goes first, so that there is room; what comes is passed on in the same turn.
    more_ = Write();
    more_ |= Deliver();
    more_ |= Hear();
    more_ |= Open();
    more_ |= Deliver();
    more_ |= Seal();
    more_ |= Write();
  }
  if (end_ns_ == 0 && (network_over_ || network_broken_ || plain_over_ || plain_broken_)) end_ns_ = now_ns + kEndNs;
  if (plain_over_ && unsealed_.empty() && !said_network_) {
    said_network_ = true;
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
    TakeSealed();
    Write();
  }
  if (end_ns_ == 0) return true;
  const bool is_said = said_network_ && (sealed_.empty() || network_broken_);
  if (is_said && !network_over_ && !network_broken_) shutdown(network_.get(), SHUT_WR);
  // The process has ended, and the peer has heard it.
  if (is_said || (network_broken_ && plain_broken_)) return false;
  // The peer has gone, and the process has heard it.
  if (network_broken_ && said_plain_) return false;
  return now_ns < end_ns_;
}

bool TlsPipe::Send(int socket, Rest* rest, bool* broken) {
  if (rest->empty()) return false;
  ssize_t sent =
      *broken ? -1
              : send(socket, rest->bytes.data() + rest->begin, rest->bytes.size() - rest->begin, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && !*broken && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) {
    *broken = true;
    sent = static_cast<ssize_t>(rest->bytes.size() - rest->begin);  // for nobody
  }
  rest->begin += static_cast<size_t>(sent);
  return true;
}

bool TlsPipe::Write() { return Send(network_.get(), &sealed_, &network_broken_); }

bool TlsPipe::Deliver() { return Send(plain_.get(), &opened_, &plain_broken_); }

bool TlsPipe::Hear() {
  if (!hears() || BIO_ctrl_pending(SSL_get_rbio(ssl_.get())) > kTlsBodyBytesMax + kTlsHeaderBytes) return false;
  size_t bytes = 0;
  switch (Receive(network_.get(), &room_, &bytes)) {
    case Got::kNothing: return false;
    case Got::kEnd: network_over_ = true; return true;
    case Got::kBytes: break;
  }
  BIO_write(SSL_get_rbio(ssl_.get()), room_.data(), static_cast<int>(bytes));
  return true;
}

bool TlsPipe::Open() {
  if (alert_ >= 0 || !opened_.empty() || !sealed_.empty()) return false;
  ERR_clear_error();
  const int got = SSL_read(ssl_.get(), room_.data(), static_cast<int>(room_.size()));
  if (got > 0) {
    opened_.bytes.assign(room_.begin(), room_.begin() + got);
    opened_.begin = 0;
    TakeSealed();
    return true;
  }
  const int error = SSL_get_error(ssl_.get(), got);
  const int reason = ERR_GET_REASON(ERR_peek_error());
  ERR_clear_error();
  TakeSealed();
  if (error == SSL_ERROR_WANT_READ) return false;
  if (error == SSL_ERROR_ZERO_RETURN) alert_ = SSL_AD_CLOSE_NOTIFY;
  if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) alert_ = reason - SSL_AD_REASON_OFFSET;
  const bool is_new = !network_over_;
  network_over_ = true;
  return is_new;
}

bool TlsPipe::Seal() {
  if (!sealed_.empty() || network_broken_) return false;
  if (unsealed_.empty()) {
    if (plain_over_) return false;
    size_t bytes = 0;
    switch (Receive(plain_.get(), &room_, &bytes)) {
      case Got::kNothing: return false;
      case Got::kEnd: plain_over_ = true; return true;
      case Got::kBytes: break;
    }
    unsealed_.bytes.assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(bytes));
    unsealed_.begin = 0;
  }
  ERR_clear_error();
  if (records_ >= kTlsRecordsPerKey && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) records_ = 0;
  const int written = SSL_write(ssl_.get(), unsealed_.bytes.data(), static_cast<int>(unsealed_.bytes.size()));
  const bool is_whole = written == static_cast<int>(unsealed_.bytes.size());
  // It waits for the rest of a message that the peer has begun, else the peer has ended it.
  if (!is_whole && SSL_get_error(ssl_.get(), written) == SSL_ERROR_WANT_READ && !network_over_) return false;
  ERR_clear_error();
  if (!is_whole) network_broken_ = true;
  unsealed_.begin = unsealed_.bytes.size();
  ++records_;
  TakeSealed();
  return true;
}

void TlsPipe::TakeSealed() {
  BIO* const out = SSL_get_wbio(ssl_.get());
  const size_t bytes = BIO_ctrl_pending(out);
  if (bytes == 0) return;
  if (sealed_.empty()) sealed_ = {};
  const size_t before = sealed_.bytes.size();
  sealed_.bytes.resize(before + bytes);
  BIO_read(out, sealed_.bytes.data() + before, static_cast<int>(bytes));
}

std::vector<std::byte> SealedAlert(const TlsSession& session, uint8_t alert) {
  constexpr uint8_t kFatal = 2;
  const std::array<uint8_t, 2> words = {kFatal, alert};
  std::vector<std::byte> record(kTlsOverheadBytes + words.size());
  record.resize(TlsKeys(session.sending).Seal(TlsContent::kAlert, std::as_bytes(std::span(words)), {}, record.data()));
  return record;
}

std::vector<std::byte> SealedAccessDenied(const TlsSession& session) { return SealedAlert(session, SSL_AD_ACCESS_DENIED); }

}  // namespace tessera
