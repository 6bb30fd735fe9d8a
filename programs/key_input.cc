#include "programs/key_input.h"

#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

// For the signal handler, which can have no object.
termios g_before;

void PutBack() { tcsetattr(STDIN_FILENO, TCSANOW, &g_before); }

// Puts the terminal back, and ends the process as if there were no handler (SA_RESETHAND).
void EndBySignal(int number) {
  PutBack();
  raise(number);
}

}  // namespace

KeyInput::KeyInput(bool wanted) {
  if (!wanted || isatty(STDIN_FILENO) != 1 || tcgetpgrp(STDIN_FILENO) != getpgrp()) return;
  if (tcgetattr(STDIN_FILENO, &g_before) != 0) return;
  struct sigaction action {};
  action.sa_handler = EndBySignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  termios mode = g_before;
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  mode.c_cc[VMIN] = 0;
  mode.c_cc[VTIME] = 0;
  on_ = tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0;
}

KeyInput::~KeyInput() {
  if (on_) PutBack();
}

char KeyInput::Wait(double seconds) const {
  if (!on_) {
    const double whole = std::floor(seconds);
    const timespec wait = {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
    nanosleep(&wait, nullptr);
    return '\0';
  }
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  if (poll(&ready, 1, static_cast<int>(std::ceil(seconds * 1e3))) <= 0) return '\0';
  char bytes[64];
  const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
  // A terminal that has gone says so again and again.
  if (got <= 0) return 'q';
  return bytes[0] == '\033' ? '\0' : bytes[got - 1];
}

}  // namespace tessera
