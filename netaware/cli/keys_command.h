// `tessera keys`: authorities and certificates for tls://, as files.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace tessera {

struct KeysOptions {
  std::string action;           // authority, server, host, client or show
  std::string subject;          // a directory, names, a name, a file
  std::string authority = ".";  // the directory of the authority that signs
  std::string directory;        // the directory for the files; empty: one with the first name, in `authority`
  std::string name;             // the name of an authority; empty: one that contains the host's name
  uint32_t days = 0;            // the life of the certificate; 0: the default of its kind
  bool force = false;           // overwrite
  std::string output = "text";  // of show; or "json"
};

CLI::App* AddKeysCommand(CLI::App& app, KeysOptions* keys);

// Prints on stdout the files that it made, or the contents of the file. Returns kExitOk, or a CliExitCode with one sentence on
// stderr.
int KeysCommand(const KeysOptions& options);

}  // namespace tessera
