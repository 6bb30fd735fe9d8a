#include "netaware/cli/where_command.h"

#include <cstdio>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/install_layout.h"

namespace tessera {

int WhereCommand() {
  const Result<InstallLayout> layout = InstallLayout::Find();
  if (!layout.ok()) {
    std::fprintf(stderr, "tessera where: %s\n", layout.status().message().c_str());
    return kExitMissingLibrary;
  }
  std::printf("%s\n", layout.value().client_dir.c_str());
  return kExitOk;
}

}  // namespace tessera
