#include "netaware/job/placer_path.h"

#include <stdlib.h>
#include <unistd.h>

namespace tessera {

std::string UserPlacerPath() {
  if (geteuid() == 0) return "/run/tessera/placer.sock";
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? std::string(runtime) + "/tessera-placer.sock" : "";
}

}  // namespace tessera
