// A process of ours beside a job, with a socket in a private directory: a private server, or an agent. Gone when the job ends.
//
// The companion watches the process that started it, not the other way round: `tessera run` becomes the program, and when
// that process ends, however it ends, the companion ends and removes its directory.
#pragma once

#include <string>
#include <vector>

#include "netaware/cli/server_check.h"

namespace tessera {

struct Companion {
  // How long it may take until it is ready: loading a driver and finding its devices takes seconds at worst.
  static constexpr int kReadyTimeoutMs = 90'000;

  struct Program {
    std::string path;                    // takes --listen, --owner-fd and --remove-directory, prints one line when it is ready
    std::string name;                    // for sentences: "the private server"
    std::vector<std::string> arguments;  // besides those
    std::vector<std::string> without;    // variables that it does not get of this process' environment
    std::string when_late;               // what may be wrong, and what to do, when it is not ready in time
    int ready_timeout_ms = kReadyTimeoutMs;  // below 0: it may take as long as it likes
  };

  std::string url;   // where it listens: unix:PATH
  std::string line;  // what it said when it was ready

  // Starts `program`, waits until it is ready and fills in `*companion`. It serves until the calling process ends. A problem
  // has an empty sentence when the companion itself has said on stderr what is wrong; then `*exit_code` is how it ended.
  static ServerProblem Start(const Program& program, Companion* companion, int* exit_code);
};

}  // namespace tessera
