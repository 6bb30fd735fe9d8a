#include "protocol/base/background.h"

#include <fcntl.h>
#include <unistd.h>

namespace tessera {

bool GoToBackground() {
  const pid_t child = fork();
  if (child > 0) _exit(0);
  if (child < 0) return false;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return true;
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);  // nobody waits for an end of what it held
  close(nothing);
  return true;
}

void LeaveStderr() {
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  dup2(nothing, STDERR_FILENO);
  close(nothing);
}

}  // namespace tessera
