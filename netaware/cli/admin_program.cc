#include "netaware/cli/admin_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "netaware/cli/exit_codes.h"

namespace tessera {

int BecomeAdminProgram(char** argv) {
  std::error_code error;
  const std::string program = (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "tessera-admin").string();
  execv(program.c_str(), argv);
  std::fprintf(stderr, "tessera: cannot start %s: %s; install Tessera again\n", program.c_str(), std::strerror(errno));
  return kExitMissingLibrary;
}

}  // namespace tessera
