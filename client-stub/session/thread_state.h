// What the stub keeps per thread of the application: made at the thread's first call, released when the thread ends. A
// thread that calls again after that (destructors of other thread-local objects do) gets a new one.
#pragma once

#include <cuda.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "client-stub/process/process_part.h"
#include "client-stub/session/context.h"
#include "client-stub/session/reply_slot.h"
#include "protocol/wire/encoder.h"

namespace tessera {

struct CallInfo;

struct ThreadState {
  // From 1; never used for another thread of this process. Travels in every record.
  uint32_t number = 0;

  // The stack of cuCtxPushCurrent; its last element is the thread's current context. Elements are never null.
  std::vector<Context*> context_stack;
  Context* current() const { return context_stack.empty() ? nullptr : context_stack.back(); }

  // The thread's next record is built here (Call::Begin).
  Encoder encoder;
  // The parameters of a kernel and the attributes of a launch are gathered here.
  std::vector<std::byte> parameters;
  std::vector<CUlaunchAttribute> attributes;
  // The reply arrives here. Its bytes stay until the next call that waits.
  ReplySlot reply;

  // cuThreadExchangeStreamCaptureMode.
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  // This thread runs a host function now: most calls are refused (800).
  bool in_host_function = false;
  // The call the thread is in or was in last; kept only while statistics are.
  const CallInfo* call = nullptr;
  // The depth of nested calls: a call in the body of another one counts as part of that.
  int call_depth = 0;
  // Some record of this thread was sent: the server is told when the thread ends.
  bool known_to_server = false;
  // Nothing has told this thread of the program that the process ends (ThreadEnds::unaware()).
  bool unaware = false;
  // How often it has waited for a server.
  uint32_t waits = 0;

  // The calling thread's state. Never null; after fork the child's thread keeps the parent's content.
  static ThreadState& Current();
};

// For Current() alone. One word of static thread-local storage: found without a call, in a library that is opened at run time,
// too. It has no destructor; the state is released by a pthread key, whose destructor runs again when the thread calls again.
extern __attribute__((tls_model("initial-exec"))) constinit thread_local ThreadState* current_thread_state;
ThreadState& MakeThreadState();

// How the state of a thread is released, and whose threads know that the process ends.
class ThreadEnds {
 public:
  static ThreadEnds& Process() { return PartOfProcess<ThreadEnds>::Get(); }
  ThreadEnds();
  // When a thread that a server knows ends, it calls `tell`, which tells the servers.
  void OnEnd(void (*tell)(ThreadState& state)) { tell_.store(tell, std::memory_order_release); }
  // The calling thread has this state from now on.
  void Watch(ThreadState* state) {
    pthread_setspecific(key_, state);
    if (state->unaware) unaware_.fetch_add(1, std::memory_order_relaxed);
  }
  // The calling thread was told that the process ends.
  void Told(ThreadState& state) {
    if (std::exchange(state.unaware, false)) unaware_.fetch_sub(1, std::memory_order_relaxed);
  }
  // Threads of the program that have made calls, live, and were not told.
  int unaware() const { return unaware_.load(std::memory_order_relaxed); }

 private:
  static void Release(void* state);

  pthread_key_t key_{};
  std::atomic<void (*)(ThreadState&)> tell_{nullptr};
  std::atomic<int> unaware_{0};
};

inline ThreadState& ThreadState::Current() {
  ThreadState* const state = current_thread_state;
  return state != nullptr ? *state : MakeThreadState();
}

}  // namespace tessera
