// Bytes over TCP under TLS 1.3 in OpenSSL's own records, for users who trust those more than ours. For tls_link.cc.
//
// An SSL object is for one thread at a time, so a lock guards it, and it has no socket. Both directions take the lock to make or
// open records. Neither holds it while it waits for the network.
#pragma once

#include <memory>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_bytes.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_tuning.h"

namespace tessera {

class TlsOpensslStream : public TlsBytes {
 public:
  // Takes over the SSL object of `session`.
  TlsOpensslStream(std::unique_ptr<TcpStream> tcp, const TlsSession& session, const TlsTuning& tuning);
  ~TlsOpensslStream() override { Close(); }

  Status Send(std::span<const std::byte> first, std::span<const std::byte> second) override EXCLUDES(sending_, using_);
  Status Fill(std::span<std::byte> to) override EXCLUDES(using_);
  void SetDeadline(uint64_t deadline_ns) override { tcp_->SetDeadline(deadline_ns); }
  int alert() const override { return alert_; }
  void Close() override EXCLUDES(sending_, using_);
  void Drop() override EXCLUDES(using_);

 private:
  // Makes records of plain_.
  Status Seal() REQUIRES(sending_) EXCLUDES(using_);
  // Moves what the SSL object wants to send into sealed_.
  void TakeSealed() REQUIRES(sending_, using_);
  void SayLast() REQUIRES(sending_) EXCLUDES(using_);
  // Opens the records that are there. 0 bytes: more has to come. Bytes before a failure count.
  Result<size_t> Open(std::span<std::byte> to) EXCLUDES(using_);
  // Why SSL_read() failed.
  Status Describe(int error);
  // Waits for bytes of records.
  Status Hear() EXCLUDES(using_);

  const std::unique_ptr<TcpStream> tcp_;
  const uint64_t records_per_key_;

  Mutex using_;  // behind sending_
  const std::shared_ptr<SSL> ssl_ GUARDED_BY(using_);
  ConditionVariable heard_;  // something came, or nothing will
  bool nothing_more_ GUARDED_BY(using_) = false;

  Mutex sending_;
  uint64_t records_ GUARDED_BY(sending_) = 0;  // under these keys
  std::vector<std::byte> plain_ GUARDED_BY(sending_);
  std::vector<std::byte> sealed_ GUARDED_BY(sending_);
  bool broken_ GUARDED_BY(sending_) = false;
  bool ended_ GUARDED_BY(sending_) = false;

  // Of the receiving thread.
  std::vector<std::byte> received_;
  int alert_ = -1;
  Status failure_;  // of what came
  Status over_;
};

}  // namespace tessera
