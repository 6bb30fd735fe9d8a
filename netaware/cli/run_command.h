// `tessera run -- COMMAND`: gives a program and all processes it starts the GPUs of a server.
#pragma once

#include <string>
#include <vector>

#include "netaware/job/job_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

struct RunOptions {
  std::string server;           // empty: TESSERA_SERVER, else a placer's, else a default one (found_server.h), else private
  std::string driver = "auto";  // of the private server: auto, cuda, emulator or the path of a library
  std::string vgpus;            // "NAME" or "NAME+NAME"; for several servers separated by commas; empty: TESSERA_VGPU, else none
  JobOptions job;               // for a job whose GPUs come from a placer
  LinkOptions link;             // for the agent of a server on another host
  bool stats = false;           // print the number of forwarded calls when each process ends
  bool quiet = false;           // do not print which GPU is used, nor that the program cannot use one
  std::vector<std::string> command;
};

// Replaces this process by the program: on success it does not return, and process id, terminal, signals and exit status are
// the program's own. Otherwise it returns a CliExitCode, with one sentence on stderr. Called once, by the main thread, without
// other threads.
int RunCommand(const RunOptions& options);

}  // namespace tessera
