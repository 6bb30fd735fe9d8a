// Bytes over TCP under TLS 1.3, after the handshake, in records of ours. For tls_link.cc.
//
// One thread sends while another receives, without a lock between them: each direction has its own keys (tls_records.h). They
// share only a flag, for a peer that asks for new keys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_bytes.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_messages.h"
#include "protocol/link/tls/tls_records.h"
#include "protocol/link/tls/tls_tuning.h"

namespace tessera {

class TlsStream : public TlsBytes {
 public:
  TlsStream(std::unique_ptr<TcpStream> tcp, const TlsSession& session, const TlsTuning& tuning);
  ~TlsStream() override { Close(); }

  Status Send(std::span<const std::byte> first, std::span<const std::byte> second) override EXCLUDES(sending_);
  Status Fill(std::span<std::byte> to) override;
  void SetDeadline(uint64_t deadline_ns) override { tcp_->SetDeadline(deadline_ns); }
  int alert() const override { return alert_; }
  void Close() override EXCLUDES(sending_);
  void Drop() override { tcp_->Drop(); }

  // Closes, with an alert to the peer instead of the goodbye.
  void Refuse(uint8_t alert) EXCLUDES(sending_);

 private:
  static constexpr uint8_t kCloseNotify = 0;

  Status SealAndSend(std::span<const std::byte> first, std::span<const std::byte> second) REQUIRES(sending_);
  // Seals from `first`, then from `second`, as many records as fit into `to`, and takes what it sealed off them. Returns the
  // bytes of the records.
  size_t SealRecords(TlsKeys& keys, std::span<const std::byte>& first, std::span<const std::byte>& second,
                     std::span<std::byte> to);
  void SayLast(uint8_t alert) REQUIRES(sending_);
  // Opens the next record. Its data goes to the beginning of `to`, which is returned, or to plain_ if it does not fit.
  Result<size_t> NextRecord(std::span<std::byte> to);
  // The same for all full records of data that are there; 0: fewer than two are. It stops at the first record that is something
  // else, or padded: NextRecord() takes that.
  Result<size_t> NextRecordsTogether(std::span<std::byte> to);
  // Waits for a whole record.
  Result<std::span<const std::byte>> AwaitRecord();
  // Handles a record that is not data. The receiving thread.
  Status TakeAlert(std::span<const std::byte> alert);
  Status TakeHandshake(std::span<const std::byte> content);

  const std::unique_ptr<TcpStream> tcp_;
  const uint64_t records_per_key_;
  TlsCrew& crew_;
  std::atomic<bool> update_wanted_{false};         // by the peer: new keys in our direction
  std::atomic<uint8_t> last_words_{kCloseNotify};  // for Close(): the alert for what came

  Mutex sending_;
  TlsKeys send_keys_ GUARDED_BY(sending_);
  std::vector<std::byte> sealed_ GUARDED_BY(sending_);
  bool broken_ GUARDED_BY(sending_) = false;  // part of a record, or of what was to be sent, is missing
  bool ended_ GUARDED_BY(sending_) = false;

  // Of the receiving thread.
  TlsKeys receive_keys_;
  TlsMessages messages_;
  size_t alone_ = 0;                // records to open one by one, since opening them together failed
  std::vector<std::byte> records_;  // as they came
  size_t records_begin_ = 0;
  size_t records_end_ = 0;
  std::vector<std::byte> plain_;  // opened data that nobody has asked for yet
  size_t plain_begin_ = 0;
  size_t plain_end_ = 0;
  int alert_ = -1;
  Status over_;
};

}  // namespace tessera
