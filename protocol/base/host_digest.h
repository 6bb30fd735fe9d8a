// Which host this is, so that addresses that mean something on one host alone are not taken for another's.
#pragma once

#include <string>

namespace tessera {

// 16 digits that are the same for all processes of this host until it starts anew, in containers too, and of no other host. Made
// of the boot id (proc(5), random/boot_id); empty where there is none. Any thread.
std::string HostDigest();

}  // namespace tessera
