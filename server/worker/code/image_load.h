// The steps that loading a module and loading a library share.
#pragma once

#include <cuda.h>

#include <memory>
#include <span>

#include "protocol/base/log.h"
#include "protocol/image/image_key.h"
#include "protocol/wire/handle.h"
#include "server/worker/call_context.h"
#include "server/worker/code/driver_image.h"
#include "server/worker/code/jit_options.h"
#include "server/worker/code/layout_table.h"
#include "server/worker/object_table.h"
#include "server/worker/output_watch.h"
#include "server/worker/worker.h"

namespace tessera {

// What a load call needs of the driver: the image and the options. An image that is to be sent first, or a request that no
// correct client sends, ends the call and leaves `image` null; an option that cannot be forwarded ends it with
// CUDA_ERROR_NOT_SUPPORTED, an image that there was no memory for with CUDA_ERROR_OUT_OF_MEMORY.
template <typename Reply>
struct ImageLoad {
  template <typename Request>
  ImageLoad(CallContext& call, const Request& request) {
    BlobStore& blobs = call.worker().parts().blobs();
    if (!blobs.Fetch(request.blobs)) {
      Reply reply;
      reply.result = blobs.has_cache() ? kImageMissing : kNoImageCache;
      call.Finish(CUDA_SUCCESS, reply);
      return;
    }
    Result<std::unique_ptr<DriverImage>> built = DriverImage::Build(blobs, request.form, request.blobs);
    if (built.ok()) image = std::move(built).value();
    if (built.status().code() == StatusCode::kResourceExhausted) {
      call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
    } else if (image == nullptr) {
      call.Malformed();
    } else if (!options.Set(request.options, request.values)) {
      image = nullptr;
      call.Finish(CUDA_ERROR_NOT_SUPPORTED);
    }
  }

  // Ends the call: the logs travel whether the load succeeded or not, so the driver's code is a field of the reply. `lazy`: the
  // driver may use the options later.
  void Finish(CallContext& call, CUresult result, HandleId owner, bool lazy) {
    const std::string info_log = options.info_log();
    const std::string error_log = options.error_log();
    Reply reply;
    reply.result = result;
    reply.info_log = info_log;
    reply.error_log = error_log;
    reply.wall_time_ms = options.wall_time_ms();
    reply.threads_per_block = options.threads_per_block();
    if (result == CUDA_SUCCESS) {
      const bool may_print = image->MayPrint();
      LogDebug("an image was loaded; it {} print", may_print ? "may" : "cannot");
      if (may_print) call.worker().driver_chores().NotePrints();
      call.worker().output_watch().Start();
      call.worker().parts().loaded_images().Keep(owner, std::move(image), lazy ? std::move(options) : JitOptions());
    } else {
      call.worker().DrainDeviceOutput();  // the emulator says why
    }
    call.Finish(CUDA_SUCCESS, reply);
  }

  std::unique_ptr<DriverImage> image;
  JitOptions options;
};

// Forgets the functions of an unloaded module or library, as the client names them.
inline void DropFunctions(CallContext& call, std::span<const uint64_t> functions) {
  for (uint64_t value : functions) {
    const HandleId function(value);
    if (function.kind() != HandleKind::kFunction && function.kind() != HandleKind::kKernel) continue;
    call.worker().parts().layouts().Drop(function);
    call.Free(function);
  }
}

}  // namespace tessera
