// cuBLAS: SGEMM.
#include <cublas_v2.h>

#include "library_check.h"

int main() {
  constexpr int n = 64;
  const float* a = DeviceArray<float>(n * n, [](size_t i) { return float(i % 7); });
  const float* b = DeviceArray<float>(n * n, [](size_t i) { return i / n == i % n ? 2.0f : 0.0f; });
  float* c = DeviceArray<float>(n * n, [](size_t) { return -1.0f; });
  cublasHandle_t handle;
  STEP(cublasCreate(&handle));
  cudaStream_t stream;
  STEP(cudaStreamCreate(&stream));
  STEP(cublasSetStream(handle, stream));
  const float one = 1, zero = 0;
  const int status = LAUNCH(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
  STEP(cublasDestroy(handle));
  return EndAfterLaunch(status, [&] { return AllNear(HostArray(c, n * n), [](size_t i) { return 2.0 * (i % 7); }); });
}
