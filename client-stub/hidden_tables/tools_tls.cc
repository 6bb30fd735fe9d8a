// TOOLS_TLS: tells the calling thread's current context. It never makes one.

#include <cuda.h>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "client-stub/session/client.h"

namespace tessera {
namespace {

struct ToolsTlsTag {
  static constexpr const char* kName = "TOOLS_TLS";
  static constexpr size_t kWords = 3;
};

// Slot 2. Before cuInit it returns 3 and does not write `context`. Without a current context it returns 0 and writes null.
CUresult CurrentContext(CUcontext* context) {
  if (!Client::Get().initialized()) return Client::Get().NotInitialized();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* current = ThreadState::Current().current();
  *context = current == nullptr ? nullptr : current->object();
  return CUDA_SUCCESS;
}

}  // namespace

const void* ToolsTls() {
  static HiddenTable<ToolsTlsTag> table;
  static const void* const filled = &table.Set(2, &CurrentContext);
  return filled;
}

}  // namespace tessera
