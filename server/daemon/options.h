// The command line of tesserad.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/log.h"

namespace tessera {

struct Options {
  enum class Role { kDaemon, kWorker, kProbe };
  Role role = Role::kDaemon;

  std::string listen_path;        // of --listen unix:PATH
  std::string driver = "auto";    // auto, cuda, emulator or a path
  LogLevel log_level = LogLevel::kWarning;
  std::string log_word = "warning";
  uint32_t sessions_max = 64;
  uint32_t grace_s = 30;

  // Of processes that the daemon starts; not for users.
  int worker_fd = -1;
  int probe_fd = -1;
  uint64_t session = 0;
  int parent_pid = 0;
  std::string priorities;  // of snapshot_builder.h; also set by the daemon for its workers
};

// Reads argv. Returns -1 when the program is to run, else the exit code (0 after --help and --version, whose text went to
// stdout; kExitUsage after an error, whose sentence went to stderr).
int ParseOptions(int argc, char** argv, Options* options);

}  // namespace tessera
