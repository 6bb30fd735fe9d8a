// Signs a new certificate for the owner of one of the same authority that expires soon, with the same name and purposes.
//
//   Result<std::unique_ptr<CertificateSigner>> signer = CertificateSigner::Open(directory, 7);
//   Result<CertificateSigner::Signed> signed = (*signer)->Sign(shown, request, time(nullptr));
//
// Any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_keys.h"

namespace tessera {

class CertificateSigner {
 public:
  static constexpr size_t kRequestBytesMax = 16 * 1024;
  static constexpr time_t kAgainS = 2;     // between two certificates for one name
  static constexpr time_t kGainPart = 10;  // a new one ends later than the old one by its life / kGainPart, or more

  // Reads the authority of `directory`, which `tessera keys authority` has made. kPermissionDenied, with the remedy: a file is
  // missing or cannot be read, others may read the key, the certificate is no authority's, or it has expired.
  static Result<std::unique_ptr<CertificateSigner>> Open(const std::string& directory, uint32_t days);
  CertificateSigner(PemPair authority, CertificateDescription is, uint32_t days)
      : authority_(std::move(authority)), is_(std::move(is)), days_(days) {}
  CertificateSigner(const CertificateSigner&) = delete;
  CertificateSigner& operator=(const CertificateSigner&) = delete;
  ~CertificateSigner();

  struct Signed {
    std::string certificate;  // PEM
    time_t ends = 0;
    std::string serial;
  };
  // `shown`: the certificate that authenticates the caller. kPermissionDenied: it has expired, is another authority's, or an
  // authority; kInvalidArgument: the request is too long, or an error of SignRequest(); kResourceExhausted: the caller was
  // given one less than kAgainS ago, or has one that is valid for nearly as long.
  Result<Signed> Sign(const CertificateDescription& shown, const std::string& request, time_t now) EXCLUDES(mutex_);

 private:
  PemPair authority_;  // its key is wiped at the end
  const CertificateDescription is_;
  const uint32_t days_;
  Mutex mutex_;
  std::map<std::string, time_t> last_ GUARDED_BY(mutex_);  // by name; no older ones than kAgainS
};

}  // namespace tessera
