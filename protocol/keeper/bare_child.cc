#include "protocol/keeper/bare_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "protocol/base/start_program.h"

namespace tessera {
namespace {

// Closes the other descriptors: whoever waits for an end of what the parent holds must not wait for this process too.
bool KeepNothingBut(int line) {
  if (line != kPassedFd && dup2(line, kPassedFd) < 0) return false;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return false;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (dup2(nothing, standard) < 0) return false;
  }
  return close_range(kPassedFd + 1, ~0U, 0) == 0;
}

}  // namespace

void BecomeBare(pid_t parent, int line) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // the parent ended before the line above
  setsid();
  if (!KeepNothingBut(line)) _exit(1);
}

}  // namespace tessera
