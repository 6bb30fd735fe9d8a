// Seals and opens the records of TLS 1.3 in one direction (RFC 8446, section 5), once OpenSSL's handshake is over.
//
// The two directions of a connection share nothing. So one thread may send while another receives, without a lock; OpenSSL's SSL
// objects do not allow that. Links know only the cipher suite TLS_AES_256_GCM_SHA384. Peers see ordinary TLS.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/tls/tls_openssl.h"

namespace tessera {

inline constexpr const char* kTlsSuite = "TLS_AES_256_GCM_SHA384";

// A cipher suite: an AEAD with a nonce of 12 bytes and a tag of 16. Links use kTlsSuite; the published traces of TLS 1.3 (RFC
// 8448) use another.
struct TlsSuite {
  const EVP_MD* (*hash)();
  const EVP_CIPHER* (*cipher)();
  size_t key_bytes;
  size_t secret_bytes;  // of the hash
};
inline constexpr TlsSuite kTlsAes256Sha384 = {EVP_sha384, EVP_aes_256_gcm, 32, 48};

// The secret from which the keys of one direction are derived, as long as the suite's hash. The destructor wipes it.
struct TlsSecret {
  static constexpr size_t kBytes = 48;  // of kTlsSuite, which no suite exceeds
  std::array<uint8_t, kBytes> bytes{};

  TlsSecret() = default;
  TlsSecret(const TlsSecret&) = default;
  TlsSecret& operator=(const TlsSecret&) = default;
  ~TlsSecret() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

enum class TlsContent : uint8_t { kNone = 0, kAlert = 21, kHandshake = 22, kData = 23 };

constexpr size_t kTlsHeaderBytes = 5;
constexpr size_t kTlsTagBytes = 16;
constexpr size_t kTlsPlainBytesMax = 16384;
// A record's bytes besides its plain text: header, content type, tag.
constexpr size_t kTlsOverheadBytes = kTlsHeaderBytes + 1 + kTlsTagBytes;
// A record's bytes behind the header, padding included (section 5.4).
constexpr size_t kTlsBodyBytesMax = kTlsPlainBytesMax + 1 + kTlsTagBytes;

// The keys of one direction, one record after the other. One thread at a time. But several threads in different lanes may seal
// (or open) records of the same keys at once, if they give the records' numbers.
class TlsKeys {
 public:
  // `lanes`: from 0 on.
  explicit TlsKeys(const TlsSecret& secret, size_t lanes = 1, const TlsSuite& suite = kTlsAes256Sha384);

  // Writes the next record, of `first` and then `second` (together at most kTlsPlainBytesMax), to `to`, which has room for
  // kTlsOverheadBytes more than them. Returns its length.
  size_t Seal(TlsContent content, std::span<const std::byte> first, std::span<const std::byte> second, std::byte* to) {
    return SealAt(0, sequence_++, content, first, second, to);
  }
  size_t SealAt(size_t lane, uint64_t sequence, TlsContent content, std::span<const std::byte> first,
                std::span<const std::byte> second, std::byte* to);

  struct Opened {
    TlsContent content;
    size_t bytes;
  };
  // Opens the next record: `record` is whole and begins with the header. The plain text goes to the beginning of `to`, which has
  // at least PlainRoom(record) bytes; the rest of `to` is spoilt. kProtocolViolation: the record was changed on its way, and
  // nothing in `to` counts.
  Result<Opened> Open(std::span<const std::byte> record, std::byte* to) { return OpenAt(0, sequence_++, record, to); }
  Result<Opened> OpenAt(size_t lane, uint64_t sequence, std::span<const std::byte> record, std::byte* to);
  static size_t PlainRoom(std::span<const std::byte> record) { return record.size() - kTlsOverheadBytes; }

  // Changes to the next keys (section 7.2), after a KeyUpdate.
  void Update();
  uint64_t records() const { return sequence_; }  // under these keys, and so the number of the next one
  // `count` records were sealed, or opened, by their numbers.
  void Skip(uint64_t records) { sequence_ += records; }

 private:
  struct Lane {
    CipherPtr cipher;
    uint64_t generation = 0;  // of the key that it has; 0: none
  };

  void Derive();
  // HKDF-Expand-Label of the secret without a context (section 7.1), for results of at most one block of the hash.
  void Expand(std::string_view label, std::span<uint8_t> result) const;
  // Begins a record. Returns the cipher for it.
  EVP_CIPHER_CTX* Begin(size_t lane, uint64_t sequence, bool seal, std::span<const std::byte, kTlsHeaderBytes> header);

  const TlsSuite suite_;
  TlsSecret secret_;
  std::array<uint8_t, 12> iv_{};
  uint64_t sequence_ = 0;
  uint64_t generation_ = 0;
  std::vector<Lane> lanes_;
};

// kProtocolViolation, for a record that does not open or bytes that are no record.
Status TlsRecordChanged();
Status TlsNoRecord();

// The length of a record, header included. `begin`: its first bytes, at least kTlsHeaderBytes. kProtocolViolation: it cannot be a
// protected record.
Result<size_t> TlsRecordBytes(std::span<const std::byte> begin);

}  // namespace tessera
