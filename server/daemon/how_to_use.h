// Says what users type to reach a server, for the line that says that the server is ready.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// "; here: tessera run -- PROGRAM; on other hosts: tessera run --server tls://gpu7:4180 -- PROGRAM": for the socket at `path` and
// the gateways at `gateway_urls`. `is_default`: users need not name the path. An address that means all addresses of this host is
// shown as `host_name`. Pure.
std::string HowToUse(const std::string& path, bool is_default, const std::vector<std::string>& gateway_urls,
                     const std::string& host_name);

}  // namespace tessera
