// cuSOLVER: Cholesky factorisation of a diagonal matrix.
#include <cusolverDn.h>

#include "library_check.h"

int main() {
  constexpr int n = 32;
  float* a = DeviceArray<float>(n * n, [](size_t i) { return i / n == i % n ? 4.0f : 0.0f; });
  int* info = DeviceArray<int>(1, [](size_t) { return -1; });
  cusolverDnHandle_t handle;
  STEP(cusolverDnCreate(&handle));
  int elements = 0;
  STEP(cusolverDnSpotrf_bufferSize(handle, CUBLAS_FILL_MODE_LOWER, n, a, n, &elements));
  float* workspace = DeviceArray<float>(static_cast<size_t>(elements) + 1, [](size_t) { return 0.0f; });
  const int status = LAUNCH(cusolverDnSpotrf(handle, CUBLAS_FILL_MODE_LOWER, n, a, n, workspace, elements, info));
  STEP(cusolverDnDestroy(handle));
  return EndAfterLaunch(status, [&] {
    const std::vector<float> factor = HostArray(a, n * n);
    for (int i = 0; i < n; ++i) {
      if (!Near(factor[i * n + i], 2)) return false;
    }
    return HostArray(info, 1)[0] == 0;
  });
}
