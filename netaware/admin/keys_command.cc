#include "netaware/admin/keys_command.h"

#include <fmt/core.h>

#include "netaware/admin/placer_call.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/identity/key_renewal.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr uint64_t kWaitNs = 5'000'000'000;

int CodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kPermissionDenied: return kExitPermission;
    case StatusCode::kInvalidArgument: return kExitUnknownScheme;
    case StatusCode::kVersionMismatch: return kExitOtherVersion;
    case StatusCode::kResourceExhausted: return kExitRefused;
    case StatusCode::kProtocolViolation: return kExitKeys;
    default: return kExitNoPlacer;
  }
}

}  // namespace

int KeysRenewCommand(const PoolOptions& options) {
  const std::string url = FindPlacer(options.placer);
  if (url.empty()) return Say(kExitNoPlacer, "no placer is named that could sign: give --placer, or set TESSERA_PLACER");
  KeyFiles files;
  if (const std::string& place = options.name; !place.empty())
    files = {place + "/certificate.pem", place + "/key.pem", place + "/authority.pem"};
  Result<CertificateDescription> now = RenewCertificate(url, files, kWaitNs);
  if (!now.ok()) return Say(CodeOf(now.status().code()), now.status().message() + HowPlacerIsTaken(options.placer));
  return Print(fmt::format("the certificate of '{}', until {}\n", Printable(now->name), DescribeTime(now->ends)));
}

}  // namespace tessera
