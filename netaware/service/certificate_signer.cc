#include "netaware/service/certificate_signer.h"

#include <fmt/core.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"

namespace tessera {
namespace {

constexpr time_t kDayS = 86'400;
constexpr time_t kBeforeS = 3'600;  // clocks of two hosts differ

Status Denied(std::string why) { return Status(StatusCode::kPermissionDenied, std::move(why)); }

}  // namespace

Result<std::unique_ptr<CertificateSigner>> CertificateSigner::Open(const std::string& directory, uint32_t days) {
  const std::string key_path = directory + "/authority-key.pem";
  PemPair authority;
  for (const auto& [path, text] :
       {std::pair(directory + "/authority.pem", &authority.certificate), std::pair(key_path, &authority.key)}) {
    Result<std::string> read = ReadSmallFile(path, kPemBytesMax);
    if (!read.ok()) {
      return Denied(read.status().message() +
                    ": --sign-with takes the directory of an authority and its key, as 'tessera keys "
                    "authority DIRECTORY' makes it");
    }
    *text = std::move(*read);
  }
  struct stat state {};
  if (stat(key_path.c_str(), &state) != 0 || (state.st_mode & 077) != 0)
    return Denied("the authority's key " + key_path + " can be read by others: chmod 600 " + key_path);
  Result<CertificateDescription> is = DescribeAuthority(authority);
  if (!is.ok()) return Denied(directory + ": " + is.status().message());
  if (is->ends <= time(nullptr)) {
    return Denied("the authority of " + directory + " has expired (" + DescribeTime(is->ends) +
                  "): make a new one with 'tessera keys authority DIRECTORY'");
  }
  if (is->key_id.empty())
    return Denied("the authority of " + directory + " has no key identifier: make one with 'tessera keys authority DIRECTORY'");
  return std::make_unique<CertificateSigner>(std::move(authority), std::move(*is), days);
}

CertificateSigner::~CertificateSigner() { explicit_bzero(authority_.key.data(), authority_.key.size()); }

Result<CertificateSigner::Signed> CertificateSigner::Sign(const CertificateDescription& shown, const std::string& request,
                                                          time_t now) {
  const std::string who = "the certificate of '" + Printable(shown.name) + "'";
  if (shown.ends <= now || now >= is_.ends)
    return Denied(who + " has expired, or its authority has: make a new one with 'tessera keys'");
  if (shown.authority || shown.issuer_key_id != is_.key_id || shown.issuer != is_.name) {
    return Denied(who + " is of another authority (" + shown.IssuerText() + ") than the one with which this placer signs (" +
                  CertificateDescription::AuthorityText(is_.name, is_.key_id) + "): make a new one with 'tessera keys'");
  }
  if (request.size() > kRequestBytesMax)
    return Status(StatusCode::kInvalidArgument, fmt::format("a request has {} bytes at most", kRequestBytesMax));
  const time_t ends = std::min<time_t>(now + days_ * kDayS, is_.ends);
  // Refuses early renewals, so that repeated requests make only a few records.
  if (ends - shown.ends < days_ * kDayS / kGainPart) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} is valid until {}, and what is signed here hardly longer: it stays as it is", who,
                              DescribeTime(shown.ends)));
  }
  {
    MutexLock lock(mutex_);
    std::erase_if(last_, [&](const auto& each) { return now - each.second >= kAgainS || now < each.second; });
    if (!last_.emplace(shown.name, now).second)
      return Status(StatusCode::kResourceExhausted, who + " was renewed a moment ago: ask again later");
  }
  Result<std::string> certificate = SignRequest(authority_,
                                                {.name = shown.name,
                                                 .names = shown.names,
                                                 .server = shown.for_servers,
                                                 .client = shown.for_clients,
                                                 .begins = now - kBeforeS,
                                                 .ends = ends},
                                                request);
  if (!certificate.ok()) return certificate.status();
  Result<CertificateDescription> made = DescribeCertificateText(*certificate);
  if (!made.ok()) return made.status();
  return Signed{std::move(*certificate), ends, made->serial};
}

}  // namespace tessera
