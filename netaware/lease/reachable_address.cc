#include "netaware/lease/reachable_address.h"

#include <unistd.h>

#include "programs/service_options.h"
#include "protocol/base/host_digest.h"
#include "protocol/base/printable.h"

namespace tessera {

Result<std::string> ReachableAddress(const control::v1::GrantPart& part) {
  const bool is_here = part.host() == HostDigest();
  std::string beyond;
  for (const std::string& address : part.addresses()) {
    const bool is_socket = !UnixPathOf(address).empty();
    // In a container the same path may be another place, or none.
    if (is_socket && is_here && access(UnixPathOf(address).c_str(), F_OK) == 0) return address;
    if (!is_socket && beyond.empty()) beyond = address;
  }
  if (!beyond.empty()) return beyond;
  return Status(StatusCode::kUnavailable, "the server " + Printable(part.server()) +
                                              " serves programs of its own host alone: start its tesserad with --listen "
                                              "tls://HOST:PORT besides");
}

}  // namespace tessera
