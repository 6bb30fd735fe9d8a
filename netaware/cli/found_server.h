// The server of a command that names none: one that listens where nobody has told it to (programs/default_socket.h). Main thread.
#pragma once

#include <string>

namespace tessera {

struct FoundServer {
  std::string url;     // unix:PATH; empty: nobody takes connections there
  std::string closed;  // unix:PATH of the host's server when this user may not use it, and has no own

  // This user's own, else the host's. Costs one failed connect where neither is there.
  static FoundServer Find();
  // Where it looks, for sentences: "unix:A or unix:B".
  static std::string Places();
  // For a command that goes on with it, on stderr.
  void Say() const;
  // Finds one, says so, and sets TESSERA_SERVER to it, for the program that this process becomes; nothing where that is set.
  static void SetVariable();
};

}  // namespace tessera
