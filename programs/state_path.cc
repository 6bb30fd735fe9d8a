#include "programs/state_path.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace tessera {

std::string StatePath(const std::string& socket_path, std::string_view end, size_t further) {
  std::string directory;
  const char* const state = getenv("XDG_STATE_HOME");
  const char* const home = getenv("HOME");
  if (state != nullptr && state[0] == '/') {
    directory = state;
  } else if (geteuid() == 0) {
    directory = "/var/lib";
  } else if (home != nullptr && home[0] == '/') {
    directory = std::string(home) + "/.local/state";
  } else {
    return "";
  }
  std::error_code error;
  std::string name;
  // No two paths have one name.
  for (const char c : std::filesystem::absolute(socket_path, error).lexically_normal().string()) {
    if (c == '/') {
      name += "%2F";
    } else if (c == '%') {
      name += "%25";
    } else {
      name += c;
    }
  }
  name += end;
  return error || name.size() + further > NAME_MAX ? "" : directory + "/tessera/" + name;
}

}  // namespace tessera
