// A helper process of a job, with a socket in a private directory: a private server, an agent or a lease. It ends with the job.
//
// The companion watches the process that started it, not the other way round: `tessera run` becomes the program, and when
// that process ends, however it ends, the companion ends and removes its directory.
#pragma once

#include <string>
#include <vector>

#include "netaware/cli/server_check.h"

namespace tessera {

struct Companion {
  // The time limit until it is ready; the load of a driver and the search for its devices take seconds at worst.
  static constexpr int kReadyTimeoutMs = 90'000;

  struct Program {
    std::string path;  // a program that takes --listen, --owner-fd and --remove-directory, and prints one line when it is ready
    std::string name;  // for sentences: "the private server"
    std::vector<std::string> arguments;      // besides those
    std::vector<std::string> without;        // variables of this process' environment that it does not get
    std::string when_late;                   // the possible cause and the advice if it is not ready in time
    int ready_timeout_ms = kReadyTimeoutMs;  // below 0: no limit
  };

  std::string url;   // the address at which it listens: unix:PATH
  std::string line;  // the line that it printed when it was ready

  // Starts `program`, waits until it is ready and fills in `*companion`. It serves until the calling process ends. A problem
  // has an empty sentence if the companion itself has printed the error on stderr; then `*exit_code` is its exit code.
  static ServerProblem Start(const Program& program, Companion* companion, int* exit_code);
};

}  // namespace tessera
