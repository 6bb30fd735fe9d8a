// User objects: the server's driver counts the references, which graphs hold there; the destructor runs here, on the
// thread of host functions, when the last one has gone.

#include "client-stub/call/call.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client_custom.h"
#include "protocol/runtime/client_support.h"

namespace tessera {

CUresult Custom_cuUserObjectCreate(Call& call, CUuserObject* object_out, void* ptr, CUhostFn destroy,
                                   unsigned int initialRefcount, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (object_out == nullptr || destroy == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuUserObjectCreateRequest request;
  request.object = call.Mint(HandleKind::kUserObject);
  if (!call.ok()) return call.result();
  request.destructor = HostFunctionsOfProcess().Add({.function = destroy, .user_data = ptr, .user_object = request.object});
  request.references = initialRefcount;
  request.flags = flags;
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) {
    *object_out = ToObject<CUuserObject>(request.object);
  } else {
    HostFunctionsOfProcess().Drop(request.destructor);
  }
  return result;
}

}  // namespace tessera
