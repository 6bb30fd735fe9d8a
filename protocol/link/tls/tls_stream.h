// Bytes over TCP under TLS 1.3, after the handshake. For tls_link.cc.
//
// One thread sends while another receives, without a lock between them: each direction has its own keys (tls_records.h) and
// nothing else that changes. Where they touch, a peer that asks for new keys, is a flag.
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
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_records.h"
#include "protocol/link/tls/tls_tuning.h"

namespace tessera {

class TlsStream {
 public:
  TlsStream(std::unique_ptr<TcpStream> tcp, const TlsSession& session, const TlsTuning& tuning);
  ~TlsStream() { Close(); }

  // Sends `first` and then `second`. Errors as of TcpStream::Send(); after one nothing can follow. One thread at a time.
  Status Send(std::span<const std::byte> first, std::span<const std::byte> second) EXCLUDES(sending_);
  // Fills `to`, which holds nothing that counts while it is not full. kUnavailable at the end, in order or not, or once closed;
  // kProtocolViolation for what is no TLS of this peer, kTimedOut at the deadline. After a failure, the same for ever. One
  // thread.
  Status Fill(std::span<std::byte> to);
  // For Fill(); kNoDeadline at first. The receiving thread.
  void SetDeadline(uint64_t deadline_ns) { tcp_->SetDeadline(deadline_ns); }
  // The alert (RFC 8446, 6) with which the peer ended it, -1: none. The receiving thread.
  int alert() const { return alert_; }

  // Tells the peer an alert instead of the goodbye, and closes.
  void Refuse(uint8_t alert) EXCLUDES(sending_);
  // Says goodbye behind what was sent, as soon as no Send() runs, and ends both directions. Any thread, any number of times.
  void Close() EXCLUDES(sending_);
  // As of TcpStream: ends both directions at once, without a goodbye.
  void Drop() { tcp_->Drop(); }

 private:
  static constexpr uint8_t kCloseNotify = 0;

  Status SealAndSend(std::span<const std::byte> first, std::span<const std::byte> second) REQUIRES(sending_);
  // Seals the begin of `first` and then `second`, as many records as there is room for in `to`, and takes it off them. Returns
  // their bytes.
  size_t SealRecords(TlsKeys& keys, std::span<const std::byte>& first, std::span<const std::byte>& second,
                     std::span<std::byte> to);
  void SayLast(uint8_t alert) REQUIRES(sending_);
  // Opens the next record. What it has of the stream is in the begin of `to`, which is returned, or in plain_ when it does not
  // fit there.
  Result<size_t> NextRecord(std::span<std::byte> to);
  // The same for all the full records of data that are there, if they are several; 0: they are not. A peer that pads full ones
  // is none of ours, and violates the protocol.
  Result<size_t> NextRecordsTogether(std::span<std::byte> to);
  // Waits for a whole record.
  Result<std::span<const std::byte>> AwaitRecord();
  // What a record of another kind than data means for the receiving thread.
  Status TakeAlert(std::span<const std::byte> alert);
  Status TakeHandshake(std::span<const std::byte> message);

  const std::unique_ptr<TcpStream> tcp_;
  const uint64_t records_per_key_;
  TlsCrew& crew_;
  std::atomic<bool> update_wanted_{false};  // by the peer: new keys in our direction

  Mutex sending_;
  TlsKeys send_keys_ GUARDED_BY(sending_);
  std::vector<std::byte> sealed_ GUARDED_BY(sending_);
  bool broken_ GUARDED_BY(sending_) = false;  // part of a record, or of what was to be sent, is missing
  bool ended_ GUARDED_BY(sending_) = false;

  // Of the receiving thread.
  TlsKeys receive_keys_;
  std::vector<std::byte> records_;  // as they came
  size_t records_begin_ = 0;
  size_t records_end_ = 0;
  std::vector<std::byte> plain_;  // what was opened and has not been asked for yet
  size_t plain_begin_ = 0;
  size_t plain_end_ = 0;
  int alert_ = -1;
  Status over_;
};

}  // namespace tessera
