// The paths of an installation's parts, relative to the running program. They are the same in a build tree, in the relocatable
// bundle and in a package.
//
//   PREFIX/bin/tessera, tesserad, tessera-agent, tessera-gateway, tessera-lease
//   PREFIX/lib/client/libcuda.so.1, libnvidia-ml.so.1   the only libraries in an application's path
#pragma once

#include <string>

#include "protocol/base/status.h"

namespace tessera {

struct InstallLayout {
  std::string daemon;      // path of tesserad, which may be missing: a host without a server has none; Find() does not check it
  std::string agent;       // likewise tessera-agent
  std::string gateway;     // likewise tessera-gateway
  std::string lease;       // likewise tessera-lease
  std::string client_dir;  // the directory to put in front of LD_LIBRARY_PATH

  // Finds the parts next to /proc/self/exe. kNotFound: the sentence names the missing part and the searched path.
  static Result<InstallLayout> Find();
};

}  // namespace tessera
