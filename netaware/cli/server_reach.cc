#include "netaware/cli/server_reach.h"

#include <unistd.h>

#include <string_view>

#include "netaware/cli/companion.h"
#include "netaware/cli/install_layout.h"
#include "protocol/link/link_address.h"
#include "protocol/link/typed_address.h"

namespace tessera {

ServerProblem ReachServer(const std::string& url, const LinkOptions& link, ServerUrls* address) {
  address->url = url;
  address->local_url = url;
  if (url == kUnixScheme) return {kExitUnknownScheme, "the server address '" + url + "' names no socket: write unix:PATH"};
  if (url.starts_with(kUnixScheme)) return {};
  if (!HasLinkScheme(url)) {
    return {kExitUnknownScheme, "the server address '" + url + "' has no known scheme: this version takes " +
                                    std::string(kTypedForms) + ", unix:PATH, " + LinkForms()};
  }
  if (const Result<LinkAddress> parsed = LinkAddress::Parse(url); !parsed.ok()) {
    return {kExitUnknownScheme, parsed.status().message()};
  }
  const Result<InstallLayout> layout = InstallLayout::Find();
  if (!layout.ok()) return {kExitMissingLibrary, layout.status().message()};
  Companion::Program agent = {layout.value().agent, "the agent", {"--server", url}, {}, "start it by hand to see more"};
  if (access(agent.path.c_str(), F_OK) != 0) {
    return {kExitMissingLibrary, agent.path + " is missing: this installation of Tessera is incomplete, install it again"};
  }
  for (std::string& word : LinkArguments(link)) agent.arguments.push_back(std::move(word));
  Companion companion;
  int exit_code = 0;
  const ServerProblem problem = Companion::Start(agent, &companion, &exit_code);
  address->local_url = companion.url;
  return problem;
}

}  // namespace tessera
