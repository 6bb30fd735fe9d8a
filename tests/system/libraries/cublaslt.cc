// cuBLASLt: the heuristic search for a matrix product, and the product.
#include <cublasLt.h>

#include "library_check.h"

int main() {
  constexpr int n = 64;
  const float* a = DeviceArray<float>(n * n, [](size_t i) { return float(i % 5); });
  const float* b = DeviceArray<float>(n * n, [](size_t i) { return i / n == i % n ? 3.0f : 0.0f; });
  float* c = DeviceArray<float>(n * n, [](size_t) { return -1.0f; });
  cublasLtHandle_t handle;
  STEP(cublasLtCreate(&handle));
  cublasLtMatmulDesc_t product;
  STEP(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  cublasLtMatrixLayout_t layout;
  STEP(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, n, n, n));
  cublasLtMatmulPreference_t preference;
  STEP(cublasLtMatmulPreferenceCreate(&preference));
  size_t workspace_bytes = 1 << 20;
  STEP(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                            sizeof(workspace_bytes)));
  cublasLtMatmulHeuristicResult_t results[8];
  int found = 0;
  STEP(cublasLtMatmulAlgoGetHeuristic(handle, product, layout, layout, layout, layout, preference, 8, results, &found));
  STEP(found > 0 ? 0 : 1);
  void* workspace = nullptr;
  STEP(cudaMalloc(&workspace, workspace_bytes));
  const float one = 1, zero = 0;
  const int status = LAUNCH(cublasLtMatmul(handle, product, &one, a, layout, b, layout, &zero, c, layout, c, layout,
                                           &results[0].algo, workspace, workspace_bytes, nullptr));
  STEP(cublasLtDestroy(handle));
  return EndAfterLaunch(status, [&] { return AllNear(HostArray(c, n * n), [](size_t i) { return 3.0 * (i % 5); }); });
}
