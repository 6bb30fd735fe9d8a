// The server of a command that names none: one that listens at a default socket (programs/default_socket.h). Main thread.
#pragma once

#include <string>

namespace tessera {

struct FoundServer {
  std::string url;     // unix:PATH; empty: no server accepts connections at a default socket
  std::string closed;  // unix:PATH of a server that this user may not use, if no other one is found

  // Finds this user's own server, else the host's. If there is none, this costs one failed connect.
  static FoundServer Find();
  // The default sockets, for sentences: "unix:A or unix:B".
  static std::string Places();
  // Prints on stderr that the command uses this server.
  void Say() const;
  // If TESSERA_SERVER is not set: finds a server, prints that on stderr, and sets the variable for the program that this
  // process becomes.
  static void SetVariable();
};

}  // namespace tessera
