// The servers of a job: `--server A,B` gives it the devices of both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/cli/server_check.h"
#include "protocol/link/link_options.h"

namespace tessera {

// The addresses between the commas, in their full form (typed_address.h). A problem (kExitUnknownScheme) if the list has an
// empty entry, an address twice, or more servers than a process can use.
ServerProblem SplitServers(std::string_view list, std::vector<std::string>* urls);

// A queried server: its address, and its report or the problem.
struct ReachedServer {
  ServerUrls address;
  ServerReport report;
  ServerProblem problem;
};
// Reaches and queries every server of the list, in order (ReachServer, CheckServer; for kBegin WaitForPlace). `vgpus`: a list
// for each server, separated by commas; empty: none. `tickets`: a file for each server, likewise. `wait_ms`: the time to wait
// for a place at each. Returns the first problem; with several servers the sentence has the address.
ServerProblem ReachServers(const std::string& list, const LinkOptions& link, ServerQuery::Ask ask,
                           std::vector<ReachedServer>* servers, const std::string& vgpus = "", const std::string& tickets = "",
                           uint64_t wait_ms = 0);

// For a command that shows servers: queries the state of each server of `list`; if it is empty, of TESSERA_SERVER, else of the
// default server (found_server.h), which it names on stderr. A server that does not answer gets a problem, which is printed on
// stderr with its address; the others are queried all the same. Returns the exit code of the first problem, or kExitOk.
// `*servers` is empty if the list is invalid or there is no server; stderr has the reason.
int AskServers(std::string list, const LinkOptions& link, std::vector<ReachedServer>* servers);

}  // namespace tessera
