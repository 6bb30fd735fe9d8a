// Table 21318C60: questions about contexts and streams. cuBLAS, cuBLASLt and cuFFT ask them, and use the answers as keys of their
// caches of kernels.

#include <cuda.h>

#include <cstdint>

#include "client-stub/hidden_tables/context_number.h"
#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/stream_objects.h"
#include "client-stub/hidden_tables/table.h"
#include "generated/client/stream.h"

namespace tessera {
namespace {

struct ContextQueriesTag {
  static constexpr const char* kName = "21318C60";
  static constexpr size_t kWords = 93;
};

// Slot 51: the object of a stream (0: the null stream).
CUresult ObjectOfStream(CUcontext, CUstream stream, void** object) {
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned long long number = 0;
  if (const CUresult result = Enter_cuStreamGetId(false, stream, &number); result != CUDA_SUCCESS) return result;
  *object = StreamObjects::Process().Of(number);
  return CUDA_SUCCESS;
}

// Slot 39: the number of the stream that has this object.
CUresult NumberOfObject(CUcontext, void* object, uint64_t* number) {
  if (object == nullptr || number == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return StreamObjects::Process().Number(object, number) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

const void* ContextQueries() {
  static HiddenTable<ContextQueriesTag> table;
  static const void* const filled = &table.Set(4, &ContextNumber).Set(39, &NumberOfObject).Set(51, &ObjectOfStream);
  return filled;
}

}  // namespace tessera
