#include "client-stub/session/thread_state.h"

#include "client-stub/process/guest_thread.h"
#include "client-stub/process/process_numbers.h"

namespace tessera {

__attribute__((tls_model("initial-exec"))) constinit thread_local ThreadState* current_thread_state = nullptr;

ThreadEnds::ThreadEnds() { pthread_key_create(&key_, &Release); }

void ThreadEnds::Release(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  current_thread_state = nullptr;
  try {
    const auto tell = Process().tell_.load(std::memory_order_acquire);
    if (state->known_to_server && tell != nullptr) tell(*state);
  } catch (...) {
    // Out of memory while a thread ends: the server keeps its few entries until the session ends.
  }
  Process().Told(*state);
  delete state;
}

ThreadState& MakeThreadState() {
  auto* state = new ThreadState;
  state->number = ProcessNumbers::Process().NextThread();
  state->unaware = !is_guest_thread;
  current_thread_state = state;
  ThreadEnds::Process().Watch(state);
  return *state;
}

}  // namespace tessera
