// Turns an operating error into a CUresult for the application. One function, one table:
//
//   what happened while connecting (cuInit)                    CUresult
//   TESSERA_SERVER unset or unusable, no such socket, nobody   CUDA_ERROR_NO_DEVICE (100): libraries treat it as a host
//     listens, no permission, no answer in time                  without a GPU and go on without one
//   the server refused for want of room                        CUDA_ERROR_DEVICE_UNAVAILABLE (46)
//   client and server are of different versions                CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)
//   the server cannot do what the environment asks for         CUDA_ERROR_NOT_SUPPORTED (801)
//   anything else                                              CUDA_ERROR_UNKNOWN (999)
//
// After the session has begun, its loss is kServerGone (session.h). In a forked child: CUDA_ERROR_NOT_INITIALIZED (3).
#pragma once

#include <cuda.h>

#include "protocol/base/status.h"

namespace tessera {

CUresult ToCuResult(const Status& status);

}  // namespace tessera
