// The command line of tesserad.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/log.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct Options {
  enum class Role { kDaemon, kWorker, kProbe, kMonitor };
  Role role = Role::kDaemon;

  std::string listen_path;        // of --listen unix:PATH
  std::string gateway_url;        // of --listen tcp://HOST:PORT; empty: no gateway
  bool insecure = false;          // of the gateway
  std::string driver = "auto";    // auto, cuda, emulator or a path
  LogLevel log_level = LogLevel::kWarning;
  std::string log_word = "warning";
  uint32_t sessions_max = 64;
  uint32_t grace_s = 30;
  SandboxMode sandbox = SandboxMode::kAuto;
  std::string sandbox_word = "auto";
  std::string worker_user = "nobody";  // of workers that root starts

  // Of a private server (netaware/cli/private_server.h); not for users.
  int owner_fd = -1;              // a pidfd: readable once the process that the server is for has ended; so does the server
  bool remove_directory = false;  // at the end, remove the directory of the socket, which was made for this server

  // Of processes that the daemon starts; not for users.
  int worker_fd = -1;
  int shares_fd = -1;  // of a worker: to the daemon's table of shares (server/shares)
  int usage_fd = -1;  // of a worker: where emulated devices show what they are used for
  int probe_fd = -1;
  int monitor_fd = -1;
  uint64_t session = 0;
  int parent_pid = 0;
  std::string priorities;  // of snapshot_builder.h; also set by the daemon for its workers
};

// Reads argv. Returns -1 when the program is to run, else the exit code (0 after --help and --version, whose text went to
// stdout; kExitUsage after an error, whose sentence went to stderr).
int ParseOptions(int argc, char** argv, Options* options);

}  // namespace tessera
