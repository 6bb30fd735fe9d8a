#include "server/daemon/how_to_use.h"

#include <fmt/core.h>

#include "protocol/link/link_address.h"

namespace tessera {

std::string HowToUse(const std::string& path, bool is_default, const std::vector<std::string>& gateway_urls,
                     const std::string& host_name) {
  std::string text = fmt::format("; here: tessera run {}-- PROGRAM", is_default ? "" : fmt::format("--server unix:{} ", path));
  for (const std::string& url : gateway_urls) {
    Result<LinkAddress> address = LinkAddress::Parse(url);
    if (address.ok() && (address->host == "0.0.0.0" || address->host == "::")) address->host = host_name;
    text += fmt::format("; on other hosts: tessera run --server {} -- PROGRAM", address.ok() ? address->Url() : url);
  }
  return text;
}

}  // namespace tessera
