#include "protocol/link/tls/tls_identity.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/link/tls/tls_observed.h"
#include "protocol/link/tls/tls_openssl.h"
#include "protocol/link/tls/tls_records.h"

namespace tessera {
namespace {

constexpr int kAuthoritiesDeepMax = 4;

Status Unusable(const std::string& sentence) { return Status(StatusCode::kPermissionDenied, sentence); }

const char* CommandFor(TlsRole role) {
  return role == TlsRole::kClient ? "'tessera keys client NAME'" : "'tessera keys server NAME'";
}

std::string DefaultDirectory(TlsRole role) {
  if (role == TlsRole::kServer && geteuid() == 0) return "/etc/tessera";
  const char* config = getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return std::string(config) + "/tessera";
  const char* home = getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.config/tessera";
}

Result<UniqueFd> Open(const LinkOptions& options, const std::string& path) {
  return options.open_file ? options.open_file(path) : OpenSmallFile(path);
}

// What is known of a file; false when it cannot be opened or found.
bool Look(const LinkOptions& options, const std::string& path, struct stat* state) {
  if (!options.open_file) return stat(path.c_str(), state) == 0;
  Result<UniqueFd> file = options.open_file(path);
  return file.ok() && fstat(file->get(), state) == 0;
}

Result<std::string> ReadFile(const LinkOptions& options, const std::string& path) {
  Result<UniqueFd> file = Open(options, path);
  return file.ok() ? ReadSmallFile(*file, path, kPemBytesMax) : file.status();
}

// The text of a file that the user named, or should have put at its place.
Result<std::string> ReadKeyFile(const LinkOptions& options, const std::string& path, const char* what, const char* option,
                                TlsRole role) {
  Result<std::string> text = ReadFile(options, path);
  if (text.ok()) return text;
  if (text.status().code() == StatusCode::kNotFound) {
    return Unusable(std::string("there is no ") + what + " at " + path + ", which tls:// needs: make one with " +
                    CommandFor(role) + ", or say where it is with " + option);
  }
  return Unusable(text.status().message());
}

Status CheckPrivate(const LinkOptions& options, const std::string& path) {
  struct stat state {};
  if (!Look(options, path, &state)) return Status::Ok();  // ReadKeyFile says so
  if (state.st_uid != geteuid() && state.st_uid != 0) {
    return Unusable("the private key " + path + " belongs to another user, who can read it: make one of your own");
  }
  if ((state.st_mode & 077) == 0) return Status::Ok();
  return Unusable("the private key " + path + " can be read by others: chmod 600 " + path);
}

Status CheckUnchangeable(const LinkOptions& options, const std::string& path) {
  struct stat state {};
  if (!Look(options, path, &state) || (state.st_mode & 022) == 0) return Status::Ok();
  return Unusable("the authority " + path + " can be changed by others: chmod 644 " + path);
}

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

Status UseAuthority(SSL_CTX* context, const std::string& path, const std::string& text) {
  const BioPtr pem = ReadFrom(text);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  bool any = false;
  while (const CertificatePtr one = NextCertificate(pem.get())) {
    if (X509_check_ca(one.get()) == 0)
      return Unusable("a certificate in " + path + " is not that of an authority: give another file with --authority");
    if (X509_STORE_add_cert(store, one.get()) != 1)
      return Unusable("the authority " + path + " cannot be used: " + OpensslWords());
    any = true;
  }
  if (any) return Status::Ok();
  return Unusable(path + " holds no certificate in PEM form: give another file with --authority");
}

Status CheckOwn(const CertificateDescription& own, const std::string& path, TlsRole role) {
  const time_t now = time(nullptr);
  if (own.ends < now)
    return Unusable("the certificate " + path + " has expired (" + DescribeTime(own.ends) + "): make a new one with " +
                    CommandFor(role));
  if (own.begins > now) {
    return Unusable("the certificate " + path + " is not valid before " + DescribeTime(own.begins) +
                    ": correct this host's clock, or wait");
  }
  if (role == TlsRole::kClient ? own.for_clients : own.for_servers) return Status::Ok();
  return Unusable("the certificate " + path + " is not one for " + (role == TlsRole::kClient ? "clients" : "servers") +
                  ": make one with " + CommandFor(role));
}

// The names in a file, one in a line; what stands behind a # is for people.
std::vector<std::string> NamesIn(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    line = line.substr(0, line.find('#'));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos) names.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
    begin = end + 1;
  }
  return names;
}

}  // namespace

KeyFiles LocateKeyFiles(TlsRole role, const KeyFiles& files) {
  const std::string directory = DefaultDirectory(role);
  const auto locate = [&](const std::string& given, const char* variable, const char* name) {
    if (!given.empty()) return given;
    const char* configured = getenv(variable);
    return configured != nullptr && *configured != '\0' ? std::string(configured) : directory + "/" + name;
  };
  return {locate(files.certificate, "TESSERA_CERTIFICATE", "certificate.pem"), locate(files.key, "TESSERA_KEY", "key.pem"),
          locate(files.authority, "TESSERA_AUTHORITY", "authority.pem")};
}

std::vector<std::string> FilesOf(TlsRole role, const LinkOptions& options) {
  const KeyFiles files = LocateKeyFiles(role, options.keys);
  return {files.certificate, files.key, files.authority, options.allow_file};
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::Load(TlsRole role, const LinkOptions& options) {
  const std::shared_ptr<TlsIdentity> identity(new TlsIdentity(role, LocateKeyFiles(role, options.keys)));
  RETURN_IF_ERROR(identity->Read(options));
  return std::shared_ptr<const TlsIdentity>(identity);
}

TlsIdentity::~TlsIdentity() { SSL_CTX_free(context_); }

Status TlsIdentity::Read(const LinkOptions& options) {
  Result<std::string> certificate = ReadKeyFile(options, files_.certificate, "certificate", "--certificate", role_);
  if (!certificate.ok()) return certificate.status();
  RETURN_IF_ERROR(CheckPrivate(options, files_.key));
  Result<std::string> key = ReadKeyFile(options, files_.key, "private key", "--key", role_);
  if (!key.ok()) return key.status();
  RETURN_IF_ERROR(CheckUnchangeable(options, files_.authority));
  Result<std::string> authority = ReadKeyFile(options, files_.authority, "certificate of an authority", "--authority", role_);
  if (!authority.ok()) return authority.status();

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
  RETURN_IF_ERROR(UseCertificate(context_, files_.certificate, *certificate, &own_));
  const Status used = UseKey(context_, files_, *key);
  OPENSSL_cleanse(key->data(), key->size());
  RETURN_IF_ERROR(used);
  RETURN_IF_ERROR(UseAuthority(context_, files_.authority, *authority));
  RETURN_IF_ERROR(CheckOwn(own_, files_.certificate, role_));

  allowed_ = options.allow;
  restricted_ = !allowed_.empty() || !options.allow_file.empty();
  if (options.allow_file.empty()) return Status::Ok();
  Result<std::string> names = ReadFile(options, options.allow_file);
  if (!names.ok()) return Unusable("the names that may connect: " + names.status().message() + "; correct --allow-file");
  for (std::string& name : NamesIn(*names)) allowed_.push_back(std::move(name));
  return Status::Ok();
}

bool TlsIdentity::Allows(const CertificateDescription& peer) const {
  const auto allowed = [&](const std::string& name) {
    return std::find(allowed_.begin(), allowed_.end(), name) != allowed_.end();
  };
  return !restricted_ || allowed(peer.name) || std::any_of(peer.names.begin(), peer.names.end(), allowed);
}

// --- TlsIdentityKeeper ---

TlsIdentityKeeper::TlsIdentityKeeper(TlsRole role, const LinkOptions& options)
    : role_(role),
      options_([&] {
        // Once: where they are depends on the user, who may be another later.
        LinkOptions located = options;
        located.keys = LocateKeyFiles(role, options.keys);
        return located;
      }()),
      paths_(FilesOf(role, options_)) {}

Result<std::unique_ptr<TlsIdentityKeeper>> TlsIdentityKeeper::Make(TlsRole role, const LinkOptions& options) {
  std::unique_ptr<TlsIdentityKeeper> keeper(new TlsIdentityKeeper(role, options));
  Stamps stamps = keeper->TakeStamps();
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(role, options);
  if (!identity.ok()) return identity.status();
  MutexLock lock(keeper->mutex_);
  keeper->stamps_ = std::move(stamps);
  keeper->identity_ = std::move(*identity);
  return keeper;
}

std::shared_ptr<const TlsIdentity> TlsIdentityKeeper::Current() {
  MutexLock lock(mutex_);
  Stamps stamps = TakeStamps();
  if (stamps == stamps_) return identity_;
  stamps_ = std::move(stamps);
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(role_, options_);
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
    if (path.empty() || !Look(options_, path, &state)) continue;
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
