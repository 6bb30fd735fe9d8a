// How tesserad ends a child: asked first, then killed.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "server/daemon/children/child_process.h"

namespace tessera {
namespace {

// A child that says by the pipe's end that it is ready. On SIGTERM it exits, or does nothing.
pid_t Start(bool ignores_sigterm) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    signal(
        SIGTERM, ignores_sigterm ? SIG_IGN : +[](int) { _exit(0); });
    close(ready[0]);
    close(ready[1]);
    for (;;) pause();
  }
  close(ready[1]);
  char none;
  EXPECT_EQ(read(ready[0], &none, 1), 0);
  close(ready[0]);
  return pid;
}

bool IsGone(pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == -1 && errno == ECHILD; }

TEST(EndChild, OneThatHeedsSigtermIsNotKilled) {
  const pid_t pid = Start(false);
  EndChild(pid, INT64_MAX);  // to be killed it would take for ever
  EXPECT_TRUE(IsGone(pid));
}

TEST(EndChild, OneThatIgnoresSigtermIsKilled) {
  const pid_t pid = Start(true);
  EndChild(pid, 0);
  EXPECT_TRUE(IsGone(pid));
}

}  // namespace
}  // namespace tessera
