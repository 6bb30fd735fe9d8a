// `tessera run -- COMMAND`: gives a program and all processes it starts the GPUs of a server.
#pragma once

#include <string>
#include <vector>

#include "netaware/job/job_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

struct RunOptions {
  std::string server;           // empty: TESSERA_SERVER, else a placer's, else one that is found (found_server.h), else private
  std::string driver = "auto";  // of the private server: auto, cuda, emulator or the path of a library
  std::string vgpus;            // "NAME" or "NAME+NAME", of several servers separated by commas; empty: TESSERA_VGPU, else none
  JobOptions job;               // of a job whose GPUs a placer finds
  LinkOptions link;             // of an agent for a server on another host
  bool stats = false;           // print what was forwarded when each process ends
  bool quiet = false;           // do not say which GPU is used, nor that the program cannot use one
  std::vector<std::string> command;
};

// Becomes the command: on success it does not return, and process id, terminal, signals and exit status are the
// program's own. Else a CliExitCode, with one sentence on stderr. To be called once, by the main thread, with no other
// threads.
int RunCommand(const RunOptions& options);

}  // namespace tessera
