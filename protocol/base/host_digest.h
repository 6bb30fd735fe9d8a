// Says which host this is, so that an address of one host is not taken for another's.
#pragma once

#include <string>

namespace tessera {

// 16 digits: the same for all processes of this host, in containers too, and different on every other host and after a restart.
// Made of the boot id (proc(5), random/boot_id); empty if there is none. Any thread.
std::string HostDigest();

}  // namespace tessera
