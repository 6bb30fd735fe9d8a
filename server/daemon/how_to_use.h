// What users type to get to a server, for the line that says that it can be used.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// "; here: tessera run -- PROGRAM; on other hosts: tessera run --server tls://gpu7:4180 -- PROGRAM": of the socket at `path`,
// whose users need not name it when `is_default`, and of the gateways at `gateway_urls`. An address that stands for all of this
// host's is told as `host_name`. Pure.
std::string HowToUse(const std::string& path, bool is_default, const std::vector<std::string>& gateway_urls,
                     const std::string& host_name);

}  // namespace tessera
