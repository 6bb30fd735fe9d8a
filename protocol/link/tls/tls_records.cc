#include "protocol/link/tls/tls_records.h"

#include <openssl/hmac.h>

#include <cstring>
#include <string_view>

#include "protocol/base/check.h"

namespace tessera {
namespace {

constexpr size_t kKeyBytesMax = 32;
constexpr uint8_t kVersion[2] = {0x03, 0x03};  // of every protected record, for boxes on the way (section 5.1)

const uint8_t* Bytes(const std::byte* at) { return reinterpret_cast<const uint8_t*>(at); }
uint8_t* Bytes(std::byte* at) { return reinterpret_cast<uint8_t*>(at); }

void PutHeader(std::byte* to, size_t body_bytes) {
  uint8_t* header = Bytes(to);
  header[0] = static_cast<uint8_t>(TlsContent::kData);
  header[1] = kVersion[0];
  header[2] = kVersion[1];
  header[3] = static_cast<uint8_t>(body_bytes >> 8);
  header[4] = static_cast<uint8_t>(body_bytes);
}

}  // namespace

TlsKeys::TlsKeys(const TlsSecret& secret, size_t lanes, const TlsSuite& suite) : suite_(suite), secret_(secret), lanes_(lanes) {
  CHECK(suite_.key_bytes <= kKeyBytesMax && suite_.secret_bytes <= TlsSecret::kBytes);
  for (Lane& lane : lanes_) {
    lane.cipher.reset(EVP_CIPHER_CTX_new());
    CHECK(lane.cipher != nullptr);
  }
  Derive();
}

void TlsKeys::Expand(std::string_view label, std::span<uint8_t> result) const {
  CHECK(result.size() <= suite_.secret_bytes);
  uint8_t info[64];
  size_t bytes = 0;
  const auto put = [&](const void* from, size_t count) {
    std::memcpy(info + bytes, from, count);
    bytes += count;
  };
  const uint8_t lengths[3] = {0, static_cast<uint8_t>(result.size()), static_cast<uint8_t>(6 + label.size())};
  put(lengths, sizeof(lengths));
  put("tls13 ", 6);
  put(label.data(), label.size());
  const uint8_t no_context_first_block[2] = {0, 1};
  put(no_context_first_block, sizeof(no_context_first_block));
  uint8_t block[EVP_MAX_MD_SIZE];
  unsigned int block_bytes = 0;
  CHECK(HMAC(suite_.hash(), secret_.bytes.data(), static_cast<int>(suite_.secret_bytes), info, bytes, block, &block_bytes) !=
        nullptr);
  CHECK(block_bytes == suite_.secret_bytes);
  std::memcpy(result.data(), block, result.size());
  OPENSSL_cleanse(block, sizeof(block));
}

void TlsKeys::Derive() {
  Expand("iv", iv_);
  sequence_ = 0;
  ++generation_;
}

void TlsKeys::Update() {
  TlsSecret next;
  Expand("traffic upd", std::span(next.bytes).first(suite_.secret_bytes));
  secret_ = next;
  Derive();
}

EVP_CIPHER_CTX* TlsKeys::Begin(size_t lane, uint64_t sequence, bool seal, std::span<const std::byte, kTlsHeaderBytes> header) {
  EVP_CIPHER_CTX* cipher = lanes_[lane].cipher.get();
  if (lanes_[lane].generation != generation_) {
    std::array<uint8_t, kKeyBytesMax> key;
    Expand("key", std::span(key).first(suite_.key_bytes));
    CHECK(EVP_CipherInit_ex(cipher, suite_.cipher(), nullptr, key.data(), nullptr, seal) == 1);
    OPENSSL_cleanse(key.data(), key.size());
    lanes_[lane].generation = generation_;
  }
  std::array<uint8_t, 12> nonce = iv_;
  for (size_t i = 0; i < sizeof(sequence); ++i) nonce[nonce.size() - 1 - i] ^= static_cast<uint8_t>(sequence >> (8 * i));
  int bytes = 0;
  CHECK(EVP_CipherInit_ex(cipher, nullptr, nullptr, nullptr, nonce.data(), seal) == 1);
  CHECK(EVP_CipherUpdate(cipher, nullptr, &bytes, Bytes(header.data()), header.size()) == 1);
  return cipher;
}

size_t TlsKeys::SealAt(size_t lane, uint64_t sequence, TlsContent content, std::span<const std::byte> first,
                       std::span<const std::byte> second, std::byte* to) {
  const size_t plain_bytes = first.size() + second.size();
  CHECK(plain_bytes <= kTlsPlainBytesMax);
  PutHeader(to, plain_bytes + 1 + kTlsTagBytes);
  EVP_CIPHER_CTX* cipher = Begin(lane, sequence, true, std::span<const std::byte, kTlsHeaderBytes>(to, kTlsHeaderBytes));
  uint8_t* at = Bytes(to) + kTlsHeaderBytes;
  const auto put = [&](const uint8_t* from, size_t bytes) {
    int written = 0;
    if (bytes == 0) return;
    CHECK(EVP_EncryptUpdate(cipher, at, &written, from, static_cast<int>(bytes)) == 1);
    at += written;
  };
  const uint8_t type = static_cast<uint8_t>(content);
  put(Bytes(first.data()), first.size());
  put(Bytes(second.data()), second.size());
  put(&type, 1);
  int written = 0;
  CHECK(EVP_EncryptFinal_ex(cipher, at, &written) == 1 && written == 0);
  CHECK(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, kTlsTagBytes, at) == 1);
  return plain_bytes + kTlsOverheadBytes;
}

Result<TlsKeys::Opened> TlsKeys::OpenAt(size_t lane, uint64_t sequence, std::span<const std::byte> record, std::byte* to) {
  CHECK(record.size() >= kTlsOverheadBytes);
  EVP_CIPHER_CTX* cipher = Begin(lane, sequence, false, record.first<kTlsHeaderBytes>());
  size_t plain_bytes = PlainRoom(record);
  const uint8_t* from = Bytes(record.data()) + kTlsHeaderBytes;
  const uint8_t* tag = from + plain_bytes + 1;
  int written = 0;
  uint8_t last = 0;
  if (plain_bytes != 0) CHECK(EVP_DecryptUpdate(cipher, Bytes(to), &written, from, static_cast<int>(plain_bytes)) == 1);
  CHECK(EVP_DecryptUpdate(cipher, &last, &written, from + plain_bytes, 1) == 1);
  CHECK(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, kTlsTagBytes, const_cast<uint8_t*>(tag)) == 1);
  uint8_t none[kTlsTagBytes];
  if (EVP_DecryptFinal_ex(cipher, none, &written) != 1) {
    OpensslWords();
    return TlsRecordChanged();
  }
  // Behind the content is its type, and behind that there may be zeros (section 5.4).
  while (last == 0 && plain_bytes != 0) last = static_cast<uint8_t>(to[--plain_bytes]);
  return Opened{static_cast<TlsContent>(last), plain_bytes};
}

Status TlsRecordChanged() {
  return Status(StatusCode::kProtocolViolation,
                "what came over the link was changed on its way: look at the network between the hosts");
}

Status TlsNoRecord() { return Status(StatusCode::kProtocolViolation, "the link brought something that is no record of TLS 1.3"); }

Result<size_t> TlsRecordBytes(std::span<const std::byte> begin) {
  const uint8_t* header = Bytes(begin.data());
  const size_t body_bytes = static_cast<size_t>(header[3]) << 8 | header[4];
  if (header[0] != static_cast<uint8_t>(TlsContent::kData) || header[1] != kVersion[0] || header[2] != kVersion[1] ||
      body_bytes < 1 + kTlsTagBytes || body_bytes > kTlsBodyBytesMax) {
    return TlsNoRecord();
  }
  return kTlsHeaderBytes + body_bytes;
}

}  // namespace tessera
