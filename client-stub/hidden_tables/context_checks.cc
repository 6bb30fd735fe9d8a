// CONTEXT_CHECKS: whether a context is an ordinary one or a green context's.

#include <cuda.h>

#include <cstdint>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "client-stub/session/client.h"

namespace tessera {
namespace {

struct ContextChecksTag {
  static constexpr const char* kName = "CONTEXT_CHECKS";
  static constexpr size_t kWords = 15;
};

// Slot 2. Kind 0 is an ordinary context; `other` stays as it is (cuBLAS fails when it is cleared). Kind 1 is a green context's;
// the caller goes on with `other`, the primary context (read from cudart's use of the answer).
CUresult Kind(CUcontext context, uint32_t* kind, CUcontext* other) {
  if (kind == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *kind = 0;
  Client& client = Client::Get();
  if (!client.initialized() || other == nullptr) return CUDA_SUCCESS;
  const Context* found = client.FindContext(context);
  if (found == nullptr || found->parent == nullptr) return CUDA_SUCCESS;
  *kind = 1;
  *other = found->parent->object();
  return CUDA_SUCCESS;
}

// Slot 3. 0: the handles of CUDART_INTERFACE can be trusted.
uint32_t DistrustHandles() { return 0; }

}  // namespace

const void* ContextChecks() {
  static HiddenTable<ContextChecksTag> table;
  static const void* const filled = &table.Set(2, &Kind).Set(3, &DistrustHandles);
  return filled;
}

}  // namespace tessera
