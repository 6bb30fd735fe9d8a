// What the gate asks of a driver to find the session's GPUs: one, whose UUID is kOneGpuUuid in all bytes, and nothing captured.
#pragma once

#include <cuda.h>

#include <cstring>

#include "generated/driver_table.h"

namespace tessera {

inline constexpr int kOneGpuUuid = 7;

inline void AddOneGpu(DriverTable& table) {
  table.cuDeviceGetCount = [](int* count) {
    *count = 1;
    return CUDA_SUCCESS;
  };
  table.cuDeviceGet = [](CUdevice* device, int number) {
    *device = number;
    return CUDA_SUCCESS;
  };
  table.cuDeviceGetUuid_v2 = [](CUuuid* uuid, CUdevice) {
    std::memset(uuid->bytes, kOneGpuUuid, sizeof(uuid->bytes));
    return CUDA_SUCCESS;
  };
  table.cuCtxGetDevice = [](CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  table.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
}

}  // namespace tessera
