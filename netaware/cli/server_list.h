// The servers of a job: `--server A,B` gives it the devices of both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/cli/server_check.h"
#include "protocol/link/link_options.h"

namespace tessera {

// The addresses between the commas, as they are meant (typed_address.h). A problem (kExitUnknownScheme) for a list with an empty
// entry, with an address twice, or with more servers than a process can use.
ServerProblem SplitServers(std::string_view list, std::vector<std::string>* urls);

// A server that was asked: where it is reached, and what it said, or why it said nothing.
struct ReachedServer {
  ServerUrls address;
  ServerReport report;
  ServerProblem problem;
};
// Reaches and asks every server of the list, in order (ReachServer, CheckServer; of kBegin WaitForPlace). `vgpus`: a list for
// each server, separated by commas; empty: none. `tickets`: a file for each, likewise. `wait_ms`: for a place at each. The first
// problem, with the server's address in the sentence where there are several.
ServerProblem ReachServers(const std::string& list, const LinkOptions& link, ServerQuery::Ask ask,
                           std::vector<ReachedServer>* servers, const std::string& vgpus = "", const std::string& tickets = "",
                           uint64_t wait_ms = 0);

// For a command that looks at servers: asks each of `list`, or of TESSERA_SERVER when it is empty, or the one that is found
// (found_server.h), which is said on stderr, how its devices are. Who does not answer has a problem, which is said on stderr with
// its address; the others are asked all the same. The exit code of the first problem, or kExitOk. No servers: there is no such
// list, which is said.
int AskServers(std::string list, const LinkOptions& link, std::vector<ReachedServer>* servers);

}  // namespace tessera
