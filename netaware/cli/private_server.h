// A private server for one `tessera run`: a companion of the job (companion.h).
#pragma once

#include <string>

#include "netaware/cli/server_check.h"

namespace tessera {

struct PrivateServer {
  std::string url;
  // The server's ready line without its name: "devices: NVIDIA H200 ×1, driver 13.0".
  std::string description;

  // Starts `daemon`, waits until it is ready and fills in `*server`. It gets all devices, regardless of CUDA_VISIBLE_DEVICES.
  // `driver` is a value of tesserad's --driver. It serves until the calling process ends. A problem has an empty sentence if
  // the server itself has printed the error on stderr.
  static ServerProblem Start(const std::string& daemon, const std::string& driver, PrivateServer* server);
};

}  // namespace tessera
