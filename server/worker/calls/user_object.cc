// User objects: counted by the driver; the client runs the destructor (streams/host_function.h).

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuUserObjectCreate(CallContext& call, const cuUserObjectCreateRequest& request) {
  if (call.driver().cuUserObjectCreate == nullptr) return call.Finish(MissingEntry("cuUserObjectCreate"));
  const auto destructor = call.worker().parts().host_functions().MakeDestructor(request.destructor, request.object);
  CUuserObject object = nullptr;
  const CUresult result =
      call.driver().cuUserObjectCreate(&object, destructor.data, destructor.function, request.references, request.flags);
  if (result == CUDA_SUCCESS) {
    call.New(request.object, object);
  } else {
    HostFunctions::Drop(destructor);
  }
  call.Finish(result, cuUserObjectCreateReply());
}

}  // namespace tessera
