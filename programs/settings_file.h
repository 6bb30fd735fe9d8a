// Files of settings (config_lines.h): how they are read, and those of a service, whose keys are its options.
//
//   # /etc/tessera/tesserad.toml
//   listen = ["/run/tessera/tessera.sock", "tls://gpu7.example"]
//   socket-group = "gpu"
//   max-sessions = 64
//   no-vgpus = true
//
// Main thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace CLI {
class App;
}

namespace tessera {

// The text of a file of settings; nothing: it is not there, or lies in a directory that is closed to this user, as another's
// HOME, where nothing is his. kPermissionDenied: it may not be read, or everybody may change it. kInvalidArgument: it is too
// long.
Result<std::optional<std::string>> ReadSettingsFile(const std::string& path);

// Where the file `name` of a service is: $XDG_CONFIG_HOME/tessera, else /etc/tessera of root and ~/.config/tessera of others.
// Empty: this user has no such directory.
std::string SettingsPath(const std::string& name);

// The file that --config names among the words of a command line; nothing: none does.
std::optional<std::string> SettingsNamedIn(const std::vector<std::string>& words);

// What the file at `path` adds to the command line `words`, as further words: an option that stands in `words` is not taken from
// the file. `app` has all options; its values are those of the file afterwards. Nothing when there is no file, unless `words`
// name it, and when `words` ask for help or the like, or have an option that --help does not show: these are for processes that a
// service starts. An error has file, line and key, and goes for a value that the option does not take, too. `lines`: where each
// key is whose words these are.
Result<std::vector<std::string>> SettingsAsWords(CLI::App& app, const std::string& path, const std::vector<std::string>& words,
                                                 std::map<std::string, int>* lines = nullptr);

// The values of all options that may stand in a file, by name, after parsing: as they were said, or the default that help shows.
using Settings = std::map<std::string, std::vector<std::string>>;
Settings SettingsIn(const CLI::App& app);

}  // namespace tessera
