// Whether a server can be used, asked before the program is started, so that the answer is an exit code and a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "protocol/wire/server_query.h"

namespace tessera {

inline constexpr std::string_view kUnixScheme = "unix:";

struct ServerUrls {
  std::string url;        // as the user gave it, for sentences
  std::string local_url;  // where processes of this host connect: unix:PATH
};

struct ServerProblem {
  int exit_code = kExitOk;
  std::string sentence;  // what happened, to what, what to do next
};
// Says the sentence, if there is one, on stderr, and returns the exit code.
int Refuse(const ServerProblem& problem);

// Asks the server what it is, and `ask` of its devices or of `device`, and fills in `*report`. A problem when nobody answers
// there, or somebody of another version (then version and hash of the report are filled in). Opens no session.
// `vgpus`: kExitVgpu when this user may not use them there; empty: none. `ticket`: bytes to show; kExitPermission when they are
// refused.
ServerProblem CheckServer(const ServerUrls& address, ServerQuery::Ask ask, ServerReport* report, uint32_t device = 0,
                          const std::string& vgpus = "", std::vector<std::byte> ticket = {});

// As CheckServer() of kBegin, and has the calling thread wait for a place for a session, for so long or a little longer:
// kExitFull when there is none by then, or when a vGPU is full. Among those who wait the server keeps the order in which they
// came; each minute this one goes to the end.
ServerProblem WaitForPlace(const ServerUrls& address, uint64_t wait_ms, ServerReport* report, const std::string& vgpus,
                           const std::vector<std::byte>& ticket = {});

// Has the server end this session, so many milliseconds from now at the latest. kExitRefused: there is none for this user.
ServerProblem EndSessionAt(const ServerUrls& address, uint64_t session, uint64_t grace_ms);

}  // namespace tessera
