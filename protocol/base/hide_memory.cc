#include "protocol/base/hide_memory.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace tessera {

Status HideMemory() {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return Status::FromErrno("cannot protect a process from being traced", errno);
  }
  return Status::Ok();
}

}  // namespace tessera
