// A server of its own for one `tessera run`: a companion of the job (companion.h).
#pragma once

#include <string>

#include "netaware/cli/server_check.h"

namespace tessera {

struct PrivateServer {
  std::string url;
  // What the server said when it was ready, without its name: "devices: NVIDIA H200 ×1, driver 13.0".
  std::string description;

  // Starts `daemon`, which has all devices, whatever CUDA_VISIBLE_DEVICES says, with the driver that --driver of tesserad takes,
  // waits until it is ready and fills in `*server`. It serves until the calling process ends. A problem has an empty sentence
  // when the server itself has said on stderr what is wrong.
  static ServerProblem Start(const std::string& daemon, const std::string& driver, PrivateServer* server);
};

}  // namespace tessera
