// `tessera run -- COMMAND`: gives a program and all processes it starts the GPUs of a server.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct RunOptions {
  std::string server;           // empty: TESSERA_SERVER, else a private server
  std::string driver = "auto";  // of the private server: auto, cuda, emulator
  bool stats = false;           // print what was forwarded when each process ends
  bool quiet = false;           // do not say which GPU is used
  std::vector<std::string> command;
};

// Runs the command to its end and returns its exit code (128 + signal when a signal ended it), or a CliExitCode with one
// sentence on stderr when it could not be started. To be called once, by the main thread, with no other threads.
int RunCommand(const RunOptions& options);

}  // namespace tessera
