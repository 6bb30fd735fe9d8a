#include "protocol/link/tls/tls_openssl_stream.h"

#include <openssl/err.h>

#include <algorithm>

#include "protocol/base/check.h"
#include "protocol/link/tls/tls_openssl.h"
#include "protocol/link/tls/tls_records.h"

namespace tessera {
namespace {

constexpr size_t kSealedTogether = 8 * kTlsPlainBytesMax;
constexpr size_t kReadTogether = size_t{256} << 10;

void Append(std::span<const std::byte>* from, size_t bytes_max, std::vector<std::byte>* to) {
  const std::span<const std::byte> taken = from->first(std::min(from->size(), bytes_max));
  to->insert(to->end(), taken.begin(), taken.end());
  *from = from->subspan(taken.size());
}

}  // namespace

TlsOpensslStream::TlsOpensslStream(std::unique_ptr<TcpStream> tcp, const TlsSession& session, const TlsTuning& tuning)
    : tcp_(std::move(tcp)), records_per_key_(tuning.records_per_key), ssl_(session.ssl), received_(kReadTogether) {
  CHECK(ssl_ != nullptr);
  MutexLock sending(sending_), lock(using_);
  plain_.reserve(kSealedTogether);
  const std::vector<std::byte>& received = session.received;
  if (!received.empty()) BIO_write(SSL_get_rbio(ssl_.get()), received.data(), static_cast<int>(received.size()));
}

// --- sending ---

Status TlsOpensslStream::Send(std::span<const std::byte> first, std::span<const std::byte> second) {
  Status sent;
  {
    MutexLock lock(sending_);
    if (ended_ || broken_) return LinkClosed();
    while (sent.ok() && (!first.empty() || !second.empty())) {
      plain_.clear();
      Append(&first, kSealedTogether, &plain_);
      Append(&second, kSealedTogether - plain_.size(), &plain_);
      sent = Seal();
      iovec part = {sealed_.data(), sealed_.size()};
      if (sent.ok()) sent = tcp_->Send(std::span(&part, 1));
    }
    broken_ = !sent.ok();
  }
  // Whoever closed it meanwhile has left the goodbye to this thread.
  if (!sent.ok() || tcp_->stopped()) Close();
  return sent;
}

Status TlsOpensslStream::Seal() {
  MutexLock lock(using_);
  if (records_ >= records_per_key_ && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) records_ = 0;
  for (;;) {
    ERR_clear_error();
    const int written = SSL_write(ssl_.get(), plain_.data(), static_cast<int>(plain_.size()));
    if (written == static_cast<int>(plain_.size())) break;
    // It waits for the rest of a message that the peer has begun, else the peer has ended it.
    if (SSL_get_error(ssl_.get(), written) != SSL_ERROR_WANT_READ || nothing_more_ || tcp_->stopped()) return LinkClosed();
    heard_.wait(using_);
  }
  records_ += (plain_.size() + kTlsPlainBytesMax - 1) / kTlsPlainBytesMax;
  TakeSealed();
  return Status::Ok();
}

void TlsOpensslStream::TakeSealed() {
  BIO* out = SSL_get_wbio(ssl_.get());
  sealed_.resize(BIO_ctrl_pending(out));
  if (!sealed_.empty()) BIO_read(out, sealed_.data(), static_cast<int>(sealed_.size()));
}

void TlsOpensslStream::SayLast() {
  if (ended_) return;
  ended_ = true;
  if (!broken_) {
    {
      MutexLock lock(using_);
      // After a failure it has its alert ready.
      ERR_clear_error();
      (void)SSL_shutdown(ssl_.get());
      ERR_clear_error();
      TakeSealed();
    }
    iovec part = {sealed_.data(), sealed_.size()};
    // There is no room when the peer does not read: it will see a connection that was cut.
    if (!sealed_.empty()) (void)tcp_->Send(std::span(&part, 1)).ok();
  }
  tcp_->EndSending();
}

void TlsOpensslStream::Close() {
  tcp_->Stop();
  {
    MutexLock lock(using_);
    heard_.notify_all();
  }
  if (!sending_.try_lock()) return;  // the sending thread will see that it was stopped
  SayLast();
  sending_.unlock();
}

void TlsOpensslStream::Drop() {
  tcp_->Drop();
  MutexLock lock(using_);
  heard_.notify_all();
}

// --- receiving ---

Status TlsOpensslStream::Fill(std::span<std::byte> to) {
  while (!to.empty()) {
    if (!over_.ok()) return over_;
    Result<size_t> opened = Open(to);
    if (opened.ok() && *opened == 0) {
      const Status heard = Hear();
      if (!heard.ok()) opened = heard;
    }
    if (!opened.ok()) {
      over_ = opened.status();
      MutexLock lock(using_);
      nothing_more_ = true;
      heard_.notify_all();
      return over_;
    }
    to = to.subspan(*opened);
  }
  return Status::Ok();
}

Result<size_t> TlsOpensslStream::Open(std::span<std::byte> to) {
  size_t opened = 0;
  MutexLock lock(using_);
  while (opened < to.size() && failure_.ok()) {
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), to.data() + opened, static_cast<int>(std::min(to.size() - opened, kReadTogether)));
    if (got > 0) {
      opened += static_cast<size_t>(got);
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), got);
    if (error == SSL_ERROR_WANT_READ) return opened;
    failure_ = Describe(error);
  }
  if (opened != 0) return opened;
  return failure_;
}

Status TlsOpensslStream::Describe(int error) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  ERR_clear_error();
  if (error == SSL_ERROR_ZERO_RETURN) alert_ = SSL_AD_CLOSE_NOTIFY;
  if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) alert_ = reason - SSL_AD_REASON_OFFSET;
  if (alert_ >= 0) return EndedByAlert(alert_);
  return reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC ? TlsRecordChanged() : TlsNoRecord();
}

Status TlsOpensslStream::Hear() {
  iovec part = {received_.data(), received_.size()};
  Result<size_t> got = tcp_->Receive(std::span(&part, 1));
  if (!got.ok()) return tcp_->at_end() && !tcp_->stopped() ? CutOff() : got.status();
  MutexLock lock(using_);
  BIO_write(SSL_get_rbio(ssl_.get()), received_.data(), static_cast<int>(*got));
  heard_.notify_all();
  return Status::Ok();
}

}  // namespace tessera
