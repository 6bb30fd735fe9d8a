// Where this host reaches a server of a grant.
#pragma once

#include <string>
#include <string_view>

#include "generated/control/grant.pb.h"
#include "protocol/base/status.h"

namespace tessera {

// A ticket is taken from its holder alone. So a name's is shown at an address at which a certificate proves it, tls://HOST:PORT,
// and a user's at a socket of this host, where the kernel names it. kUnavailable: the server has no such address; the sentence
// says what to do.
Result<std::string> ReachableAddress(const control::v1::GrantPart& part, std::string_view holder);

}  // namespace tessera
