// A server of its own for one `tessera run`: started on a socket in a private directory, gone when the job ends.
//
// The server watches the process that started it, not the other way round: `tessera run` becomes the program, and when
// that process ends, however it ends, the server ends and removes its directory.
#pragma once

#include <string>

#include "netaware/cli/server_check.h"

namespace tessera {

struct PrivateServer {
  // How long the server may take until it is ready: loading a driver and finding its devices takes seconds at worst.
  static constexpr int kReadyTimeoutMs = 90'000;

  std::string url;
  // What the server said when it was ready, without its name: "devices: NVIDIA H200 ×1, driver 13.0".
  std::string description;

  // Starts `daemon` with the driver that --driver of tesserad takes, waits until it is ready and fills in `*server`. It
  // serves until the calling process ends. A problem has an empty sentence when the server itself has said on stderr
  // what is wrong.
  static ServerProblem Start(const std::string& daemon, const std::string& driver, PrivateServer* server);
};

}  // namespace tessera
