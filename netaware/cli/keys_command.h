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
  std::string directory;        // where the files go; empty: a directory of the first name in `authority`
  std::string name;             // of an authority; empty: one with this host's
  uint32_t days = 0;            // 0: as usual for what is made
  bool force = false;           // overwrite
  std::string output = "text";  // of show; or "json"
};

CLI::App* AddKeysCommand(CLI::App& app, KeysOptions* keys);

// What it made, or what the file says, is printed on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int KeysCommand(const KeysOptions& options);

}  // namespace tessera
