// TOOLS_RUNTIME_CALLBACK_HOOKS: by it the runtime tells profilers of its calls. No profiler can attach to this library, so all
// flags stay zero. With zero flags only slots 2 and 6 are called.

#include <cuda.h>

#include "client-stub/hidden_tables/context_number.h"
#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "generated/client/stream.h"

namespace tessera {
namespace {

struct RuntimeHooksTag {
  static constexpr const char* kName = "TOOLS_RUNTIME_CALLBACK_HOOKS";
  static constexpr size_t kWords = 7;
};

// Elements, not bytes. The runtime of CUDA 13.0 demands more than 522 and 13; driver 580 has 1024 and 14 (measured).
constexpr size_t kCallFlags = 1024;
constexpr size_t kEventFlags = 14;
uint32_t call_flags[kCallFlags];
uint32_t event_flags[64];  // more than the count that callers get, in case one reads further

void Deliver(uint32_t, void*) {}

void CallFlags(uint32_t** flags, size_t* count) {
  *flags = call_flags;
  *count = kCallFlags;
}

void EventFlags(uint32_t** flags, size_t* count) {
  *flags = event_flags;
  *count = kEventFlags;
}

CUresult StreamNumber(CUcontext, CUstream stream, void* number) {
  return Enter_cuStreamGetId(false, stream, static_cast<unsigned long long*>(number));
}

}  // namespace

const void* RuntimeHooks() {
  static HiddenTable<RuntimeHooksTag> table;
  static const void* const filled = &table.Set(1, &Deliver)
                                         .Set(2, &CallFlags)
                                         .Set(3, &StreamNumber)
                                         .Set(4, &ContextNumber)
                                         .Set(5, &Deliver)
                                         .Set(6, &EventFlags);
  return filled;
}

}  // namespace tessera
