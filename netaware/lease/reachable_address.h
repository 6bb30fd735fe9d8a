// Where this host reaches a server of a grant.
#pragma once

#include <string>

#include "generated/control/grant.pb.h"
#include "protocol/base/status.h"

namespace tessera {

// The socket of a server of this host, else its first address in a network. kUnavailable: it has neither; the sentence names it.
Result<std::string> ReachableAddress(const control::v1::GrantPart& part);

}  // namespace tessera
