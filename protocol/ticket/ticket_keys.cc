#include "protocol/ticket/ticket_keys.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <string_view>
#include <utility>

#include "protocol/base/check.h"

namespace tessera {
namespace {

constexpr uint32_t kMagic = 0x544b5354;  // "TSKT"
constexpr size_t kSignatureBytes = 64;
constexpr size_t kPublicBytes = 32;
constexpr size_t kHeaderBytes = 4 + 4 + 8;
// Before what is signed, so that a signature of these keys means nothing else.
constexpr std::string_view kPurpose = "tessera ticket";

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using PkeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free_all>>;

// Nobody is asked for a password: a key that is encrypted is no key here.
int NoPassword(char*, int, int, void*) { return -1; }

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string WithPurpose(std::span<const std::byte> bytes) {
  std::string text(kPurpose);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text;
}

const unsigned char* Unsigned(const void* bytes) { return static_cast<const unsigned char*>(bytes); }

// Of any ticket, and which key it names.
Status CheckHeader(std::span<const std::byte> bytes, uint64_t* key_id) {
  Decoder in(bytes);
  const auto magic = in.Pod<uint32_t>();
  const auto version = in.Pod<uint32_t>();
  *key_id = in.Pod<uint64_t>();
  if (!in.ok() || magic != kMagic || bytes.size() > kTicketBytesMax) {
    return Status(StatusCode::kProtocolViolation, "this is no ticket");
  }
  if (version != kTicketVersion) {
    return Status(
        StatusCode::kVersionMismatch,
        fmt::format("the ticket has version {}, and this server takes version {}: the placer and this server are of different "
                    "releases",
                    version, kTicketVersion));
  }
  if (bytes.size() < kHeaderBytes + kSignatureBytes) return Status(StatusCode::kProtocolViolation, "the ticket is cut off");
  return Status::Ok();
}

}  // namespace

class TicketKey {
 public:
  explicit TicketKey(PkeyPtr pkey) : pkey_(std::move(pkey)) {}

  EVP_PKEY* get() const { return pkey_.get(); }
  bool IsEd25519() const { return pkey_ != nullptr && EVP_PKEY_get_base_id(pkey_.get()) == EVP_PKEY_ED25519; }

  uint64_t Id() const {
    std::array<unsigned char, kPublicBytes> raw{};
    size_t size = raw.size();
    CHECK(EVP_PKEY_get_raw_public_key(pkey_.get(), raw.data(), &size) == 1 && size == raw.size());
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    CHECK(EVP_Digest(raw.data(), raw.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
    uint64_t id = 0;
    std::memcpy(&id, digest.data(), sizeof(id));
    return id;
  }

 private:
  const PkeyPtr pkey_;
};

// The placer's.

TicketSigner::TicketSigner(std::unique_ptr<TicketKey> key) : key_(std::move(key)), key_id_(key_->Id()) {}
TicketSigner::TicketSigner(TicketSigner&&) noexcept = default;
TicketSigner& TicketSigner::operator=(TicketSigner&&) noexcept = default;
TicketSigner::~TicketSigner() = default;

Result<TicketSigner> TicketSigner::Make() {
  PkeyPtr pkey(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (pkey == nullptr) {
    const unsigned long error = ERR_get_error();
    return Status(StatusCode::kInternal,
                  fmt::format("OpenSSL cannot make a key for tickets: {}", ERR_reason_error_string(error)));
  }
  return TicketSigner(std::make_unique<TicketKey>(std::move(pkey)));
}

Result<TicketSigner> TicketSigner::FromPem(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  auto key = std::make_unique<TicketKey>(PkeyPtr(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr)));
  ERR_clear_error();
  if (!key->IsEd25519()) return Status(StatusCode::kInvalidArgument, "no private Ed25519 key in PEM form");
  return TicketSigner(std::move(key));
}

std::string TicketSigner::PrivatePem() const {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_PKCS8PrivateKey(bio.get(), key_->get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return TextOf(bio.get());
}

std::string TicketSigner::PublicPem() const {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_PUBKEY(bio.get(), key_->get()) == 1);
  return TextOf(bio.get());
}

std::vector<std::byte> TicketSigner::Sign(const Ticket& ticket) const {
  Encoder out(kTicketBytesMax - kSignatureBytes);
  out.Pod(kMagic);
  out.Pod(kTicketVersion);
  out.Pod(key_id_);
  ticket.Encode(out);
  CHECK(out.ok());
  const std::string signed_text = WithPurpose(out.bytes());
  std::vector<std::byte> bytes(out.bytes().begin(), out.bytes().end());
  bytes.resize(bytes.size() + kSignatureBytes);
  const DigestPtr digest(EVP_MD_CTX_new());
  size_t size = kSignatureBytes;
  CHECK(EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key_->get()) == 1);
  CHECK(EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(&bytes[bytes.size() - kSignatureBytes]), &size,
                       Unsigned(signed_text.data()), signed_text.size()) == 1);
  CHECK(size == kSignatureBytes);
  return bytes;
}

// A server's.

TicketKeys::TicketKeys() = default;
TicketKeys::TicketKeys(TicketKeys&&) noexcept = default;
TicketKeys& TicketKeys::operator=(TicketKeys&&) noexcept = default;
TicketKeys::~TicketKeys() = default;

Result<uint64_t> TicketKeys::Add(const std::string& public_pem) {
  const BioPtr bio(BIO_new_mem_buf(public_pem.data(), static_cast<int>(public_pem.size())));
  auto key = std::make_unique<TicketKey>(PkeyPtr(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassword, nullptr)));
  ERR_clear_error();
  if (!key->IsEd25519()) return Status(StatusCode::kInvalidArgument, "no public Ed25519 key in PEM form");
  const uint64_t id = key->Id();
  keys_.try_emplace(id, std::move(key));
  return id;
}

void TicketKeys::Remove(uint64_t key_id) { keys_.erase(key_id); }

Result<Ticket> TicketKeys::Open(std::span<const std::byte> bytes) const {
  uint64_t key_id = 0;
  RETURN_IF_ERROR(CheckHeader(bytes, &key_id));
  const auto key = keys_.find(key_id);
  if (key == keys_.end()) {
    return Status(StatusCode::kPermissionDenied,
                  fmt::format("the ticket is signed with the key {:016x}, which is no key of this server's "
                              "placer",
                              key_id));
  }
  const std::string signed_text = WithPurpose(bytes.first(bytes.size() - kSignatureBytes));
  const std::span<const std::byte> signature = bytes.last(kSignatureBytes);
  const DigestPtr digest(EVP_MD_CTX_new());
  CHECK(EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key->second->get()) == 1);
  const bool is_genuine = EVP_DigestVerify(digest.get(), Unsigned(signature.data()), signature.size(),
                                           Unsigned(signed_text.data()), signed_text.size()) == 1;
  ERR_clear_error();
  if (!is_genuine)
    return Status(StatusCode::kPermissionDenied, "the ticket's signature is wrong: it is forged, damaged or cut off");
  return Ticket::Decode(bytes.subspan(kHeaderBytes, bytes.size() - kHeaderBytes - kSignatureBytes));
}

Result<Ticket> ReadUnprovedTicket(std::span<const std::byte> bytes) {
  uint64_t key_id = 0;
  RETURN_IF_ERROR(CheckHeader(bytes, &key_id));
  return Ticket::Decode(bytes.subspan(kHeaderBytes, bytes.size() - kHeaderBytes - kSignatureBytes));
}

}  // namespace tessera
