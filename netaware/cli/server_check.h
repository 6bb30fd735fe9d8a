// Checks before the start of the program that a server can be used, so that a problem becomes an exit code and a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "protocol/wire/server_query.h"

namespace tessera {

inline constexpr std::string_view kUnixScheme = "unix:";

struct ServerUrls {
  std::string url;        // the user's form, for sentences
  std::string local_url;  // the address for processes of this host: unix:PATH
};

struct ServerProblem {
  int exit_code = kExitOk;
  std::string sentence;  // the event, its object, and the advice
};
// Prints the sentence, if there is one, on stderr, and returns the exit code.
int Refuse(const ServerProblem& problem);

// Queries the server, with `ask` for its devices or for `device`, and fills in `*report`. Returns a problem if no server
// answers, or one of another version (then version and hash of the report are filled in). Opens no session. `vgpus`: kExitVgpu
// if this user may not use them there; empty: none. `ticket`: the bytes to present; kExitPermission if they are refused.
ServerProblem CheckServer(const ServerUrls& address, ServerQuery::Ask ask, ServerReport* report, uint32_t device = 0,
                          const std::string& vgpus = "", std::vector<std::byte> ticket = {});

// As CheckServer() with kBegin, and blocks until the server has a place for a session. It waits `wait_ms` or a little longer;
// kExitFull: there is still no place, or a vGPU is full. The server serves waiting clients in the order of arrival; each minute
// this one goes to the end.
ServerProblem WaitForPlace(const ServerUrls& address, uint64_t wait_ms, ServerReport* report, const std::string& vgpus,
                           const std::vector<std::byte>& ticket = {});

// Makes the server end this session, `grace_ms` from now at the latest. kExitRefused: this user has no such session.
ServerProblem EndSessionAt(const ServerUrls& address, uint64_t session, uint64_t grace_ms);

}  // namespace tessera
