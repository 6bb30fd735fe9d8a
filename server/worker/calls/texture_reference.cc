// Texture and surface references: objects of a module that the driver made, so their handles are minted here.
// Source: CUDA driver API, "Texture Reference Management [DEPRECATED]".

#include <cuda.h>

#include <string>

#include "generated/driver_table.h"
#include "generated/server/module.h"
#include "generated/server/texture.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/code/module_references.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

bool MayRead(CallContext& call, const CUDA_ARRAY_DESCRIPTOR& image, CUdeviceptr base, size_t pitch) {
  Range extent;
  return ExtentOf(base, pitch, 1, 1, image.Height, 1, &extent) &&
         call.worker().parts().memory().MayCopy(extent.base, extent.bytes);
}

}  // namespace

void Do_cuModuleGetTexRef(CallContext& call, const cuModuleGetTexRefRequest& request) {
  if (call.driver().cuModuleGetTexRef == nullptr) return call.Finish(MissingEntry("cuModuleGetTexRef"));
  CUmodule module = call.Use<CUmodule>(request.hmod);
  if (!call.ok()) return call.Finish(call.error());
  CUtexref reference = nullptr;
  const CUresult result = call.driver().cuModuleGetTexRef(&reference, module, std::string(request.name).c_str());
  cuModuleGetTexRefReply reply;
  if (result == CUDA_SUCCESS) {
    reply.pTexRef = call.Known(HandleKind::kTextureReference, reference);
    call.worker().parts().module_references().Note(request.hmod, reply.pTexRef);
  }
  call.Finish(result, reply);
}

void Do_cuModuleGetSurfRef(CallContext& call, const cuModuleGetSurfRefRequest& request) {
  if (call.driver().cuModuleGetSurfRef == nullptr) return call.Finish(MissingEntry("cuModuleGetSurfRef"));
  CUmodule module = call.Use<CUmodule>(request.hmod);
  if (!call.ok()) return call.Finish(call.error());
  CUsurfref reference = nullptr;
  const CUresult result = call.driver().cuModuleGetSurfRef(&reference, module, std::string(request.name).c_str());
  cuModuleGetSurfRefReply reply;
  if (result == CUDA_SUCCESS) {
    reply.pSurfRef = call.Known(HandleKind::kSurfaceReference, reference);
    call.worker().parts().module_references().Note(request.hmod, reply.pSurfRef);
  }
  call.Finish(result, reply);
}

void Do_cuTexRefSetAddress_v2(CallContext& call, const cuTexRefSetAddress_v2Request& request) {
  if (call.driver().cuTexRefSetAddress_v2 == nullptr) return call.Finish(MissingEntry("cuTexRefSetAddress_v2"));
  CUtexref reference = call.Use<CUtexref>(request.hTexRef);
  if (!call.ok()) return call.Finish(call.error());
  const bool unbinds = request.dptr == 0;
  if (!unbinds && !call.worker().parts().memory().MayCopy(request.dptr, request.bytes)) {
    return call.Finish(CUDA_ERROR_INVALID_VALUE);
  }
  cuTexRefSetAddress_v2Reply reply;
  const CUresult result = call.driver().cuTexRefSetAddress_v2(request.has_ByteOffset ? &reply.ByteOffset : nullptr, reference,
                                                              request.dptr, request.bytes);
  call.Finish(result, reply);
}

void Do_cuTexRefSetAddress2D_v2(CallContext& call, const cuTexRefSetAddress2D_v2Request& request) {
  if (call.driver().cuTexRefSetAddress2D_v2 == nullptr) return call.Finish(MissingEntry("cuTexRefSetAddress2D_v2"));
  CUtexref reference = call.Use<CUtexref>(request.hTexRef);
  if (!call.ok()) return call.Finish(call.error());
  if (!MayRead(call, request.desc, request.dptr, request.Pitch)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  call.Finish(call.driver().cuTexRefSetAddress2D_v2(reference, &request.desc, request.dptr, request.Pitch));
}

void Do_cuTexRefSetAddress2D_v3(CallContext& call, const cuTexRefSetAddress2D_v3Request& request) {
  if (call.driver().cuTexRefSetAddress2D_v3 == nullptr) return call.Finish(MissingEntry("cuTexRefSetAddress2D_v3"));
  CUtexref reference = call.Use<CUtexref>(request.hTexRef);
  if (!call.ok()) return call.Finish(call.error());
  if (!MayRead(call, request.desc, request.dptr, request.Pitch)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  call.Finish(call.driver().cuTexRefSetAddress2D_v3(reference, &request.desc, request.dptr, request.Pitch));
}

}  // namespace tessera
