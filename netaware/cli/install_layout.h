// Where the parts of an installation lie, relative to the running program: the same in a build tree, in the relocatable
// bundle and in a package.
//
//   PREFIX/bin/tessera, tesserad, tessera-agent, tessera-gateway, tessera-lease
//   PREFIX/lib/client/libcuda.so.1, libnvidia-ml.so.1   the only libraries an application is shown
#pragma once

#include <string>

#include "protocol/base/status.h"

namespace tessera {

struct InstallLayout {
  std::string daemon;      // path of tesserad, which need not be there: a host of programs alone has none; Find() does not look
  std::string agent;       // likewise tessera-agent
  std::string gateway;     // likewise tessera-gateway
  std::string lease;       // likewise tessera-lease
  std::string client_dir;  // what goes in front of LD_LIBRARY_PATH

  // Finds the parts next to /proc/self/exe. kNotFound names the missing part and where it was looked for.
  static Result<InstallLayout> Find();
};

}  // namespace tessera
