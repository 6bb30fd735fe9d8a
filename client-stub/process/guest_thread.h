// Starts threads of our own in somebody else's process: with every signal blocked, so that the application's handlers
// run on its own threads only.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace tessera {

// Whether the calling thread is one of ours.
extern __attribute__((tls_model("initial-exec"))) constinit thread_local bool is_guest_thread;

// `name` (at most 15 characters) shows up in debuggers. Throws std::system_error as std::thread does.
template <typename Body>
std::thread StartGuestThread(const char* name, Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  std::thread thread([body = std::move(body)]() mutable {
    is_guest_thread = true;
    body();
  });
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace tessera
