// Green contexts are not forwarded; what is left are questions about things that cannot be green.

#include <cuda.h>

#include "client-stub/client.h"
#include "generated/client/green.h"

namespace tessera {

// No stream of this process belongs to a green context: natively a null one is returned then.
CUresult Custom_cuStreamGetGreenCtx(Call& call, CUstream hStream, CUgreenCtx* phCtx) {
  if (!call.ok()) return call.result();
  if (phCtx == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  call.UseStream(hStream);
  if (!call.ok()) return call.result();
  *phCtx = nullptr;
  return CUDA_SUCCESS;
}

}  // namespace tessera
