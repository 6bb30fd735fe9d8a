// An ordinary CUDA program: nothing in it knows of Tessera.
#include <cstdio>
#include <vector>

__global__ void saxpy(int n, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

#define CHECK_CUDA(call)                                                         \
  do {                                                                           \
    const cudaError_t error = (call);                                            \
    if (error != cudaSuccess) {                                                  \
      std::fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(error)); \
      return 1;                                                                  \
    }                                                                            \
  } while (false)

int main() {
  cudaDeviceProp properties;
  CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
  std::printf("device: %s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);

  const int n = 1 << 20;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = 1.0f;
  }
  float *device_x, *device_y;
  CHECK_CUDA(cudaMalloc(&device_x, n * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&device_y, n * sizeof(float)));
  CHECK_CUDA(cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(device_y, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  saxpy<<<(n + 255) / 256, 256>>>(n, 2.0f, device_x, device_y);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaMemcpy(y.data(), device_y, n * sizeof(float), cudaMemcpyDeviceToHost));

  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += y[i] != 2.0f * x[i] + 1.0f;
  std::printf("saxpy of %d elements: %s\n", n, wrong == 0 ? "correct" : "WRONG");
  CHECK_CUDA(cudaFree(device_x));
  CHECK_CUDA(cudaFree(device_y));
  return wrong == 0 ? 0 : 1;
}
