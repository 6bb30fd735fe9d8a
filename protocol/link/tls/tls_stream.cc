#include "protocol/link/tls/tls_stream.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tessera {
namespace {

// Sealed before they are sent with one system call, and received with one at most. They fit into a core's second-level cache;
// with helpers there are more, so that each has some.
constexpr size_t kFullRecordBytes = kTlsPlainBytesMax + kTlsOverheadBytes;
constexpr size_t kRecordsTogether = 8;
constexpr size_t kRecordsTogetherMax = 32;
constexpr size_t kReceivedBytes = size_t{256} << 10;
constexpr size_t kReceivedBytesMax = size_t{1} << 20;

constexpr uint8_t kFatal = 2;
constexpr uint8_t kWarning = 1;
constexpr uint8_t kKeyUpdate[] = {24, 0, 0, 1, 0};  // a handshake message: without asking for the same (RFC 8446, 4.6.3)

std::span<const std::byte> TakeFrom(std::span<const std::byte>& from, size_t bytes_max) {
  const std::span<const std::byte> taken = from.first(std::min(bytes_max, from.size()));
  from = from.subspan(taken.size());
  return taken;
}

Status Violation(const char* what) { return Status(StatusCode::kProtocolViolation, std::string("the link brought ") + what); }

}  // namespace

TlsStream::TlsStream(std::unique_ptr<TcpStream> tcp, const TlsSession& session, const TlsTuning& tuning)
    : tcp_(std::move(tcp)),
      records_per_key_(tuning.records_per_key),
      crew_(*tuning.crew),
      send_keys_(session.sending, crew_.helpers() + 1),
      sealed_((crew_.helpers() == 0 ? kRecordsTogether : kRecordsTogetherMax) * kFullRecordBytes),
      receive_keys_(session.receiving, crew_.helpers() + 1),
      messages_(session.client),
      records_(std::max(crew_.helpers() == 0 ? kReceivedBytes : kReceivedBytesMax, session.received.size())),
      plain_(kTlsBodyBytesMax) {
  std::copy(session.received.begin(), session.received.end(), records_.begin());
  records_end_ = session.received.size();
}

// --- sending ---

Status TlsStream::Send(std::span<const std::byte> first, std::span<const std::byte> second) {
  Status sent;
  {
    MutexLock lock(sending_);
    if (ended_ || broken_) return LinkClosed();
    sent = SealAndSend(first, second);
    broken_ = !sent.ok();
  }
  // Whoever closed it meanwhile has left the goodbye to this thread.
  if (!sent.ok() || tcp_->stopped()) Close();
  return sent;
}

Status TlsStream::SealAndSend(std::span<const std::byte> first, std::span<const std::byte> second) {
  while (!first.empty() || !second.empty()) {
    size_t filled = 0;
    if (send_keys_.records() >= records_per_key_ || update_wanted_.exchange(false)) {
      filled = send_keys_.Seal(TlsContent::kHandshake, std::as_bytes(std::span(kKeyUpdate)), {}, sealed_.data());
      send_keys_.Update();
    }
    filled += SealRecords(send_keys_, first, second, std::span(sealed_).subspan(filled));
    iovec part = {sealed_.data(), filled};
    RETURN_IF_ERROR(tcp_->Send(std::span(&part, 1)));
  }
  return Status::Ok();
}

size_t TlsStream::SealRecords(TlsKeys& keys, std::span<const std::byte>& first, std::span<const std::byte>& second,
                              std::span<std::byte> to) {
  struct Plain {
    std::span<const std::byte> begin, rest;
  };
  std::array<Plain, kRecordsTogetherMax> records;
  size_t count = 0, bytes = 0;
  while ((!first.empty() || !second.empty()) && to.size() - bytes >= kFullRecordBytes) {
    Plain& record = records[count++];
    record.begin = TakeFrom(first, kTlsPlainBytesMax);
    record.rest = TakeFrom(second, kTlsPlainBytesMax - record.begin.size());
    bytes += record.begin.size() + record.rest.size() + kTlsOverheadBytes;
  }
  // All but the last are full.
  const uint64_t number = keys.records();
  crew_.ForEach(count, [&](size_t lane, size_t i) {
    keys.SealAt(lane, number + i, TlsContent::kData, records[i].begin, records[i].rest, to.data() + i * kFullRecordBytes);
  });
  keys.Skip(count);
  return bytes;
}

void TlsStream::SayLast(uint8_t alert) {
  if (ended_) return;
  ended_ = true;
  if (!broken_) {
    const uint8_t words[2] = {alert == kCloseNotify ? kWarning : kFatal, alert};
    iovec part = {sealed_.data(), send_keys_.Seal(TlsContent::kAlert, std::as_bytes(std::span(words)), {}, sealed_.data())};
    // There is no room when the peer does not read: it will see a connection that was cut.
    (void)tcp_->Send(std::span(&part, 1)).ok();
  }
  tcp_->EndSending();
}

void TlsStream::Refuse(uint8_t alert) {
  tcp_->Stop();
  MutexLock lock(sending_);
  SayLast(alert);
}

void TlsStream::Close() {
  tcp_->Stop();
  if (!sending_.try_lock()) return;  // the sending thread will see that it was stopped
  SayLast(last_words_.load());
  sending_.unlock();
}

// --- receiving ---

Status TlsStream::Fill(std::span<std::byte> to) {
  while (!to.empty()) {
    if (plain_begin_ != plain_end_) {
      const size_t bytes = std::min(to.size(), plain_end_ - plain_begin_);
      std::memcpy(to.data(), plain_.data() + plain_begin_, bytes);
      plain_begin_ += bytes;
      to = to.subspan(bytes);
      continue;
    }
    if (!over_.ok()) return over_;
    Result<size_t> got = NextRecord(to);
    if (!got.ok()) {
      over_ = got.status();
      // Of this kind alone is what the peer should hear of.
      uint8_t nothing_yet = kCloseNotify;
      if (over_.code() == StatusCode::kProtocolViolation)
        last_words_.compare_exchange_strong(nothing_yet, SSL_AD_UNEXPECTED_MESSAGE);
      return over_;
    }
    to = to.subspan(*got);
  }
  return Status::Ok();
}

Result<size_t> TlsStream::NextRecord(std::span<std::byte> to) {
  Result<std::span<const std::byte>> record = AwaitRecord();
  if (!record.ok()) return record.status();
  if (alone_ == 0 && crew_.helpers() != 0 && !messages_.within()) {
    Result<size_t> together = NextRecordsTogether(to);
    if (!together.ok() || *together != 0) return together;
  }
  if (alone_ != 0) --alone_;
  const bool here = TlsKeys::PlainRoom(*record) <= to.size();
  std::byte* plain = here ? to.data() : plain_.data();
  Result<TlsKeys::Opened> opened = receive_keys_.Open(*record, plain);
  if (!opened.ok()) {
    last_words_.store(SSL_AD_BAD_RECORD_MAC);
    return opened.status();
  }
  if (messages_.within() && opened->content != TlsContent::kHandshake)
    return Violation("a message of a handshake without its end");
  records_begin_ += record->size();
  const std::span<const std::byte> content(plain, opened->bytes);
  switch (opened->content) {
    case TlsContent::kData:
      if (here) return opened->bytes;
      plain_begin_ = 0;
      plain_end_ = opened->bytes;
      return size_t{0};
    case TlsContent::kAlert: return TakeAlert(content);
    case TlsContent::kHandshake: RETURN_IF_ERROR(TakeHandshake(content)); return size_t{0};
    default: return Violation("a record of an unknown kind");
  }
}

Result<size_t> TlsStream::NextRecordsTogether(std::span<std::byte> to) {
  const std::span<const std::byte> there =
      std::span<const std::byte>(records_).subspan(records_begin_, records_end_ - records_begin_);
  const size_t most = std::min({to.size() / kTlsPlainBytesMax, there.size() / kFullRecordBytes, kRecordsTogetherMax});
  size_t count = 0;
  while (count < most) {
    Result<size_t> bytes = TlsRecordBytes(there.subspan(count * kFullRecordBytes));
    if (!bytes.ok() || *bytes != kFullRecordBytes) break;  // for when its turn comes
    ++count;
  }
  if (count < 2) return size_t{0};
  std::array<bool, kRecordsTogetherMax> taken;
  const uint64_t number = receive_keys_.records();
  crew_.ForEach(count, [&](size_t lane, size_t i) {
    Result<TlsKeys::Opened> opened = receive_keys_.OpenAt(lane, number + i, there.subspan(i * kFullRecordBytes, kFullRecordBytes),
                                                          to.data() + i * kTlsPlainBytesMax);
    taken[i] = opened.ok() && opened->content == TlsContent::kData && opened->bytes == kTlsPlainBytesMax;
  });
  const auto good = static_cast<size_t>(std::find(taken.begin(), taken.begin() + count, false) - taken.begin());
  alone_ = count - good;
  receive_keys_.Skip(good);
  records_begin_ += good * kFullRecordBytes;
  return good * kTlsPlainBytesMax;
}

Result<std::span<const std::byte>> TlsStream::AwaitRecord() {
  for (;;) {
    const size_t have = records_end_ - records_begin_;
    size_t bytes = kTlsHeaderBytes;
    if (have >= kTlsHeaderBytes) {
      Result<size_t> whole = TlsRecordBytes(std::span<const std::byte>(records_).subspan(records_begin_));
      if (!whole.ok()) return whole.status();
      bytes = *whole;
      if (have >= bytes) return std::span<const std::byte>(records_).subspan(records_begin_, bytes);
    }
    if (have == 0) records_begin_ = records_end_ = 0;
    if (records_begin_ + bytes > records_.size()) {
      std::memmove(records_.data(), records_.data() + records_begin_, have);
      records_begin_ = 0;
      records_end_ = have;
    }
    iovec part = {records_.data() + records_end_, records_.size() - records_end_};
    Result<size_t> got = tcp_->Receive(std::span(&part, 1));
    if (!got.ok()) {
      if (!tcp_->at_end() || tcp_->stopped()) return got.status();
      return CutOff();
    }
    records_end_ += *got;
  }
}

Status TlsStream::TakeAlert(std::span<const std::byte> alert) {
  if (alert.size() != 2) return Violation("an alert of another length");
  alert_ = static_cast<uint8_t>(alert[1]);
  return EndedByAlert(alert_);
}

Status TlsStream::TakeHandshake(std::span<const std::byte> content) {
  Result<TlsMessages::Heard> heard = messages_.Take(content);
  if (!heard.ok()) return heard.status();
  if (*heard != TlsMessages::Heard::kNothing) receive_keys_.Update();
  if (*heard == TlsMessages::Heard::kNewKeysWanted) update_wanted_.store(true);
  return Status::Ok();
}

}  // namespace tessera
