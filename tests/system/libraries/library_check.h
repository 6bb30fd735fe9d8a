// For programs that drive a genuine CUDA library. Every step before the library's first launch must succeed. The launch
// itself may end in one other way on a device that runs PTX alone: most libraries have their kernels as machine code.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// One step: any status but 0 ends the program.
#define STEP(call)                                                                                              \
  do {                                                                                                          \
    const int status_ = static_cast<int>(call);                                                                 \
    if (status_ != 0) {                                                                                         \
      std::fprintf(stderr, "%s:%d: %s returned %d (last CUDA error: %s)\n", __FILE__, __LINE__, #call, status_, \
                   cudaGetErrorName(cudaPeekAtLastError()));                                                    \
      std::exit(1);                                                                                             \
    }                                                                                                           \
    std::printf("done: %s\n", #call);                                                                           \
    std::fflush(stdout);                                                                                        \
  } while (false)

// The first call that launches. Its status is returned, not judged: EndAfterLaunch does that.
#define LAUNCH(call) (std::printf("launch: %s\n", #call), std::fflush(stdout), static_cast<int>(call))

// A device array filled by `value(i)`.
template <typename T, typename Value>
T* DeviceArray(size_t count, Value value) {
  std::vector<T> host(count);
  for (size_t i = 0; i < count; ++i) host[i] = value(i);
  T* device = nullptr;
  if (cudaMalloc(reinterpret_cast<void**>(&device), count * sizeof(T)) != cudaSuccess ||
      cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice) != cudaSuccess) {
    std::fprintf(stderr, "an array of %zu bytes could not be made: %s\n", count * sizeof(T),
                 cudaGetErrorString(cudaGetLastError()));
    std::exit(1);
  }
  return device;
}

template <typename T>
std::vector<T> HostArray(const T* device, size_t count) {
  std::vector<T> host(count);
  if (cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) {
    std::fprintf(stderr, "results could not be copied: %s\n", cudaGetErrorString(cudaGetLastError()));
    std::exit(1);
  }
  return host;
}

inline bool Near(double a, double b) { return std::fabs(a - b) <= 1e-4 * (1 + std::fabs(b)); }

template <typename Value>
bool AllNear(const std::vector<float>& actual, Value expected) {
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!Near(actual[i], expected(i))) return false;
  }
  return true;
}

// The end of a program, behind everything that prints: how the launch ended. Libraries need not tell that one failed (some
// do not look), so results that are wrong count as a refusal as well: run_library then demands the server's word that it
// refused the library's machine code, which is the only excuse.
template <typename Check>
int EndAfterLaunch(int status, const Check& right) {
  const cudaError_t error = cudaDeviceSynchronize();
  const bool ran = status == 0 && error == cudaSuccess && right();
  if (!ran) std::printf("the launch returned %d, the synchronise after it %d\n", status, static_cast<int>(error));
  std::puts(ran ? "ran" : "refused");
  return 0;
}
