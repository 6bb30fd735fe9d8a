#include "client-stub/session/thread_state.h"

#include <pthread.h>

#include <atomic>

namespace tessera {

__attribute__((tls_model("initial-exec"))) constinit thread_local ThreadState* current_thread_state = nullptr;

namespace {

std::atomic<void (*)(ThreadState&)> tell_servers{nullptr};

void ReleaseState(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  current_thread_state = nullptr;
  try {
    const auto tell = tell_servers.load(std::memory_order_acquire);
    if (state->known_to_server && tell != nullptr) tell(*state);
  } catch (...) {
    // Out of memory while a thread ends: the server keeps its few entries until the session ends.
  }
  delete state;
}

pthread_key_t ReleaseKey() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, &ReleaseState);
    return made;
  }();
  return key;
}

}  // namespace

void OnThreadEnd(void (*tell)(ThreadState& state)) { tell_servers.store(tell, std::memory_order_release); }

ThreadState& MakeThreadState() {
  static std::atomic<uint32_t> next{1};
  auto* state = new ThreadState;
  state->number = next.fetch_add(1, std::memory_order_relaxed);
  current_thread_state = state;
  pthread_setspecific(ReleaseKey(), state);
  return *state;
}

}  // namespace tessera
