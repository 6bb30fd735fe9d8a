#include "netaware/lease/reachable_address.h"

#include <unistd.h>

#include "programs/service_options.h"
#include "protocol/base/host_digest.h"
#include "protocol/base/printable.h"
#include "protocol/wire/holder.h"

namespace tessera {

Result<std::string> ReachableAddress(const control::v1::GrantPart& part, std::string_view holder) {
  const bool by_name = IsNameHolder(holder);
  const bool is_here = part.host() == HostDigest();
  for (const std::string& address : part.addresses()) {
    const std::string path = UnixPathOf(address);
    if (by_name && address.starts_with("tls://")) return address;
    // In a container the same path may be another place, or none.
    if (!by_name && is_here && !path.empty() && access(path.c_str(), F_OK) == 0) return address;
  }
  const std::string server = "the server " + Printable(part.server());
  if (by_name) {
    return Status(StatusCode::kUnavailable, server + " has no address for " + Printable(std::string(holder)) +
                                                ": start its tesserad with --listen tls://HOST:PORT besides");
  }
  return Status(StatusCode::kUnavailable, server +
                                              " is of another host, where nobody knows this user: ask the placer at its "
                                              "tls:// address, with a certificate ('tessera keys client NAME')");
}

}  // namespace tessera
