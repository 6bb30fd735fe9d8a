// The address at which this host reaches a server of a grant.
#pragma once

#include <string>
#include <string_view>

#include "generated/control/grant.pb.h"
#include "protocol/base/status.h"

namespace tessera {

// A server accepts a ticket from its holder alone. So a ticket of a name needs an address where a certificate proves the name,
// tls://HOST:PORT. A ticket of a user needs a socket of this host, where the kernel names the user. kUnavailable: the server has
// no such address; the sentence says what to do.
Result<std::string> ReachableAddress(const control::v1::GrantPart& part, std::string_view holder);

}  // namespace tessera
