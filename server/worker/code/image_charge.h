// What an image takes of the GPU's memory, in the session's ledger.
#pragma once

#include <cuda.h>

#include <functional>

#include "protocol/wire/handle.h"

namespace tessera {

class CallContext;  // call_context.h
class DriverImage;  // driver_image.h

// The result of `load`, which makes the module or library `owner` of the image. Its variables are held as long as that lives.
// CUDA_ERROR_OUT_OF_MEMORY, and it was not called, where the session may not hold them.
CUresult LoadCharged(CallContext& call, const DriverImage& image, HandleId owner, const std::function<CUresult()>& load);

}  // namespace tessera
