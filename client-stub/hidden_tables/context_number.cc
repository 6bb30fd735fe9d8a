#include "client-stub/hidden_tables/context_number.h"

#include "client-stub/session/client.h"

namespace tessera {

CUresult ContextNumber(CUcontext context, uint64_t* number) {
  if (number == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (context == nullptr) {
    *number = 0;
    return CUDA_SUCCESS;
  }
  // The calling thread's own context is the usual case, and needs no lock.
  const Context* found = ThreadState::Current().current();
  if (found == nullptr || found->object() != context) {
    Client& client = Client::Get();
    if (!client.initialized()) return client.NotInitialized();
    found = client.FindContext(context);
  }
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *number = found->number.load(std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

}  // namespace tessera
