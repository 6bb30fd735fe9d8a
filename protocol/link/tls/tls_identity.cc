#include "protocol/link/tls/tls_identity.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/link/tls/tls_observed.h"
#include "protocol/link/tls/tls_openssl.h"
#include "protocol/link/tls/tls_records.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr int kAuthoritiesDeepMax = 4;
constexpr int kAuthoritiesNamedMax = 4;

Status Unusable(const std::string& sentence) { return Status(StatusCode::kPermissionDenied, sentence); }

// The next certificate of `pem`; null behind the last.
CertificatePtr NextCertificate(BIO* pem) {
  CertificatePtr certificate(PEM_read_bio_X509(pem, nullptr, nullptr, nullptr));
  if (certificate == nullptr) ERR_clear_error();
  return certificate;
}

// No passphrase is asked for.
int NoPassphrase(char*, int, int, void*) { return -1; }

Status UseCertificate(SSL_CTX* context, const std::string& path, const std::string& text, CertificateDescription* own) {
  const BioPtr pem = ReadFrom(text);
  const CertificatePtr leaf = NextCertificate(pem.get());
  if (leaf == nullptr) return Unusable(path + " holds no certificate in PEM form: give another file with --certificate");
  *own = DescribeCertificate(*leaf);
  if (SSL_CTX_use_certificate(context, leaf.get()) != 1)
    return Unusable("the certificate " + path + " cannot be used: " + OpensslWords());
  while (const CertificatePtr between = NextCertificate(pem.get())) {
    if (SSL_CTX_add1_chain_cert(context, between.get()) != 1)
      return Unusable("the certificate " + path + " cannot be used: " + OpensslWords());
  }
  return Status::Ok();
}

Status UseKey(SSL_CTX* context, const KeyFiles& files, const std::string& text) {
  const KeyPtr key(PEM_read_bio_PrivateKey(ReadFrom(text).get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    OpensslWords();
    return Unusable(files.key + " holds no private key in PEM form that needs no passphrase: give another file with --key");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) == 1) return Status::Ok();
  OpensslWords();
  return Unusable("the private key " + files.key + " is not that of the certificate " + files.certificate +
                  ": give two files that were made together with --certificate and --key");
}

// `names`: of the first ones, for sentences.
Status UseAuthority(SSL_CTX* context, const std::string& path, const std::string& text, std::string* names) {
  int named = 0;
  const BioPtr pem = ReadFrom(text);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  bool any = false;
  while (const CertificatePtr one = NextCertificate(pem.get())) {
    if (X509_check_ca(one.get()) == 0)
      return Unusable("a certificate in " + path + " is not that of an authority: give another file with --authority");
    if (X509_STORE_add_cert(store, one.get()) != 1)
      return Unusable("the authority " + path + " cannot be used: " + OpensslWords());
    any = true;
    if (++named > kAuthoritiesNamedMax) continue;
    const CertificateDescription is = DescribeCertificate(*one);
    *names += (named > 1 ? ", " : "") + CertificateDescription::AuthorityText(is.name, is.key_id);
  }
  if (any) return Status::Ok();
  return Unusable(path + " holds no certificate in PEM form: give another file with --authority");
}

Status CheckOwn(const CertificateDescription& own, const std::string& path, TlsRole role) {
  const time_t now = time(nullptr);
  if (own.ends < now)
    return Unusable("the certificate " + path + " has expired (" + DescribeTime(own.ends) + "): make a new one with " +
                    KeysCommand(role));
  if (own.begins > now) {
    return Unusable("the certificate " + path + " is not valid before " + DescribeTime(own.begins) +
                    ": correct this host's clock, or wait");
  }
  if (role == TlsRole::kClient ? own.for_clients : own.for_servers) return Status::Ok();
  return Unusable("the certificate " + path + " is not one for " + (role == TlsRole::kClient ? "clients" : "servers") +
                  ": make one with " + KeysCommand(role));
}

}  // namespace

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::Load(TlsRole role, const LinkOptions& options,
                                                             std::string_view protocol) {
  const KeyFiles files = LocateKeyFiles(role, options.keys);
  Result<KeyTexts> texts = ReadKeyFiles(role, files, options);
  if (!texts.ok()) return texts.status();
  return Make(role, files, *texts, protocol);
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::Make(TlsRole role, const KeyFiles& files, const KeyTexts& texts,
                                                             std::string_view protocol) {
  const std::shared_ptr<TlsIdentity> identity(new TlsIdentity(role, files));
  RETURN_IF_ERROR(identity->Use(texts));
  if (!protocol.empty()) RETURN_IF_ERROR(identity->Speak(protocol));
  return std::shared_ptr<const TlsIdentity>(identity);
}

TlsIdentity::~TlsIdentity() { SSL_CTX_free(context_); }

Status TlsIdentity::Use(const KeyTexts& texts) {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  context_ = SSL_CTX_new(role_ == TlsRole::kClient ? TLS_client_method() : TLS_server_method());
  if (context_ == nullptr || SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(context_, kTlsSuite) != 1 ||
      SSL_CTX_set_num_tickets(context_, 0) != 1) {
    return Status(StatusCode::kInternal, "OpenSSL cannot do TLS 1.3 with " + std::string(kTlsSuite) + ": " + OpensslWords());
  }
  TlsObserved::Prepare(context_);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify_depth(context_, kAuthoritiesDeepMax);
  RETURN_IF_ERROR(UseCertificate(context_, files_.certificate, texts.certificate, &own_));
  RETURN_IF_ERROR(UseKey(context_, files_, texts.key));
  RETURN_IF_ERROR(UseAuthority(context_, files_.authority, texts.authority, &authorities_));
  RETURN_IF_ERROR(CheckOwn(own_, files_.certificate, role_));

  allowed_ = texts.allowed;
  restricted_ = texts.restricted;
  return Status::Ok();
}

Status TlsIdentity::Speak(std::string_view protocol) {
  // As ALPN has it: a byte with the length of each name before it.
  protocol_ = static_cast<char>(protocol.size()) + std::string(protocol);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(protocol_.data());
  if (role_ == TlsRole::kClient) {
    if (SSL_CTX_set_alpn_protos(context_, bytes, static_cast<unsigned>(protocol_.size())) == 0) return Status::Ok();
    return Status(StatusCode::kInternal, "OpenSSL cannot name a protocol: " + OpensslWords());
  }
  SSL_CTX_set_alpn_select_cb(
      context_,
      [](SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* in, unsigned in_bytes, void* own) {
        const std::string& ours = *static_cast<const std::string*>(own);
        for (unsigned at = 0; at < in_bytes; at += 1 + in[at]) {
          const std::string_view name(reinterpret_cast<const char*>(in) + at, std::min(in_bytes - at, 1U + in[at]));
          if (name != ours) continue;
          *out = in + at + 1;
          *out_bytes = in[at];
          return SSL_TLSEXT_ERR_OK;
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL;
      },
      &protocol_);
  return Status::Ok();
}

bool TlsIdentity::Allows(const CertificateDescription& peer) const {
  const auto allowed = [&](const std::string& name) {
    return std::find(allowed_.begin(), allowed_.end(), name) != allowed_.end();
  };
  // All that have no name would be the same one to those behind.
  if (!IsNameHolder(NameHolder(peer.name))) return false;
  return !restricted_ || allowed(peer.name) || std::any_of(peer.names.begin(), peer.names.end(), allowed);
}

// --- TlsIdentityKeeper ---

TlsIdentityKeeper::TlsIdentityKeeper(TlsRole role, const LinkOptions& options, std::string_view protocol)
    : role_(role),
      options_([&] {
        // Once: where they are depends on the user, who may be another later.
        LinkOptions located = options;
        located.keys = LocateKeyFiles(role, options.keys);
        return located;
      }()),
      protocol_(protocol),
      paths_(FilesOf(role, options_)) {}

Result<std::unique_ptr<TlsIdentityKeeper>> TlsIdentityKeeper::Make(TlsRole role, const LinkOptions& options,
                                                                   std::string_view protocol) {
  std::unique_ptr<TlsIdentityKeeper> keeper(new TlsIdentityKeeper(role, options, protocol));
  Stamps stamps = keeper->TakeStamps();
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(role, options, protocol);
  if (!identity.ok()) return identity.status();
  MutexLock lock(keeper->mutex_);
  keeper->stamps_ = std::move(stamps);
  keeper->identity_ = std::move(*identity);
  return keeper;
}

std::shared_ptr<const TlsIdentity> TlsIdentityKeeper::Current() {
  const uint64_t asked_ns = MonotonicNs();
  MutexLock lock(mutex_);
  // A look that began later has seen what this one would: hundreds of connections a second wait for one look, not each for its
  // own.
  if (looked_ns_ > asked_ns) return identity_;
  looked_ns_ = MonotonicNs();
  Stamps stamps = TakeStamps();
  if (stamps == stamps_) return identity_;
  stamps_ = std::move(stamps);
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(role_, options_, protocol_);
  if (identity.ok()) {
    identity_ = std::move(*identity);
    LogInfo("read the certificate {} again: {}, until {}", identity_->files().certificate, identity_->own().name,
            DescribeTime(identity_->own().ends));
  } else {
    LogWarning("goes on with the certificate as it was: {}", identity.status().message());
  }
  return identity_;
}

TlsIdentityKeeper::Stamps TlsIdentityKeeper::TakeStamps() const {
  Stamps stamps;
  for (const std::string& path : paths_) {
    struct stat state {};
    std::string& stamp = stamps.emplace_back();
    if (path.empty() || !LookAtKeyFile(options_, path, &state)) continue;
    for (const auto value :
         {static_cast<uint64_t>(state.st_ino), static_cast<uint64_t>(state.st_size), static_cast<uint64_t>(state.st_mode),
          static_cast<uint64_t>(state.st_mtim.tv_sec), static_cast<uint64_t>(state.st_mtim.tv_nsec),
          static_cast<uint64_t>(state.st_ctim.tv_sec), static_cast<uint64_t>(state.st_ctim.tv_nsec)}) {
      stamp += std::to_string(value) + " ";
    }
  }
  return stamps;
}

}  // namespace tessera
