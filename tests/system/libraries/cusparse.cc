// cuSPARSE: the product of a diagonal matrix and a vector.
#include <cusparse.h>

#include "library_check.h"

int main() {
  constexpr int n = 128;
  int* rows = DeviceArray<int>(n + 1, [](size_t i) { return int(i); });
  int* columns = DeviceArray<int>(n, [](size_t i) { return int(i); });
  float* values = DeviceArray<float>(n, [](size_t) { return 2.0f; });
  float* x = DeviceArray<float>(n, [](size_t i) { return float(i); });
  float* y = DeviceArray<float>(n, [](size_t) { return -1.0f; });
  cusparseHandle_t handle;
  STEP(cusparseCreate(&handle));
  cusparseSpMatDescr_t matrix;
  STEP(cusparseCreateCsr(&matrix, n, n, n, rows, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                         CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  cusparseDnVecDescr_t in, out;
  STEP(cusparseCreateDnVec(&in, n, x, CUDA_R_32F));
  STEP(cusparseCreateDnVec(&out, n, y, CUDA_R_32F));
  const float one = 1, zero = 0;
  size_t bytes = 0;
  STEP(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
                               CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
  void* workspace = nullptr;
  STEP(cudaMalloc(&workspace, bytes + 256));
  const int status = LAUNCH(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
                                         CUSPARSE_SPMV_ALG_DEFAULT, workspace));
  STEP(cusparseDestroy(handle));
  return EndAfterLaunch(status, [&] { return AllNear(HostArray(y, n), [](size_t i) { return 2.0 * i; }); });
}
