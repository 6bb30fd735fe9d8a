// Makes another context current on the calling thread while it lives, for calls that a call makes in another session.
#pragma once

#include "client-stub/session/thread_state.h"

namespace tessera {

class ContextScope {
 public:
  explicit ContextScope(const Context& context) {
    ThreadState::Current().context_stack.push_back(const_cast<Context*>(&context));
  }
  ~ContextScope() { ThreadState::Current().context_stack.pop_back(); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

}  // namespace tessera
