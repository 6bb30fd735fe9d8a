// Kernels that use registered host memory through its device pointer.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"

__global__ void Add(const int* a, const int* b, int* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}
struct Hidden {
  int* data;
};
__global__ void AddOne(const Hidden* hidden, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) hidden->data[i] += 1;
}
__global__ void Answer(volatile int* words) {
  while (words[0] == 0) {
  }
  words[1] = words[0] + 1;
  __threadfence_system();
  words[2] = 1;
}
struct Pair {
  int* from;
  int* to;
  int n;
};
static void CUDART_CB DoubleInto(void* user) {
  auto* pair = static_cast<Pair*>(user);
  for (int i = 0; i < pair->n; ++i) pair->to[i] = 2 * pair->from[i];
}

// A shared mapping of a file is the same memory on both sides: a kernel and the program meet in it while the kernel runs.
// A file need not end where a page does.
static void SharedFile(int fd, size_t bytes) {
  CHECK_CUDA(ftruncate(fd, bytes) == 0 ? cudaSuccess : cudaErrorUnknown);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  EXPECT_EQ(mapped == MAP_FAILED, false);
  auto* words = reinterpret_cast<volatile int*>(static_cast<char*>(mapped) + 4096 + 64);
  void* begin = const_cast<int*>(words);
  CHECK_CUDA(cudaHostRegister(begin, 5000, cudaHostRegisterMapped));
  int* device_words;
  CHECK_CUDA(cudaHostGetDevicePointer(&device_words, begin, 0));
  cudaPointerAttributes attributes;
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, begin));
  EXPECT_EQ(attributes.devicePointer == device_words && attributes.hostPointer == begin, true);
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, device_words));
  EXPECT_EQ(attributes.devicePointer == device_words && attributes.hostPointer == begin, true);
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Answer<<<1, 1, 0, stream>>>(device_words);
  words[0] = 41;
  while (words[2] == 0) {
  }
  EXPECT_EQ(words[1], 42);
  // Copies go by either address, straight to the memory.
  int* copy;
  CHECK_CUDA(cudaMalloc(&copy, 5000));
  words[1000] = 77;
  CHECK_CUDA(cudaMemcpyAsync(copy, begin, 5000, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(device_words + 5, copy + 1000, sizeof(int), cudaMemcpyDefault, stream));
  CHECK_CUDA(cudaMemcpyAsync(const_cast<int*>(words) + 6, copy + 1, sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(words[5], 77);
  EXPECT_EQ(words[6], 42);
  EXPECT_EQ(cudaMemcpy(copy, begin, 5001, cudaMemcpyHostToDevice) == cudaSuccess, false);
  CHECK_CUDA(cudaHostUnregister(begin));
  CHECK_CUDA(cudaFree(copy));
  munmap(mapped, bytes);
}

// --no-polling: without kernels that wait for the program while they run.
int main(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != "--no-polling") {
    SharedFile(memfd_create("program", MFD_CLOEXEC), 3 * 4096);
    const std::string name = "/tessera-test-" + std::to_string(getpid());
    const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_EQ(fd >= 0, true);
    SharedFile(fd, 2 * 4096 + 1100);
    shm_unlink(name.c_str());
  }
  const int n = 50'000;
  const size_t bytes = n * sizeof(int);
  std::vector<int> own_a(n + 9), own_b(n + 9), own_sum(n + 9);
  int *a = own_a.data() + 3, *b = own_b.data() + 4, *sum = own_sum.data() + 1;
  int *device_a, *device_b, *device_sum;
  for (int* memory : {a, b, sum}) CHECK_CUDA(cudaHostRegister(memory, bytes, cudaHostRegisterMapped));
  CHECK_CUDA(cudaHostGetDevicePointer(&device_a, a, 0));
  CHECK_CUDA(cudaHostGetDevicePointer(&device_b, b, 0));
  CHECK_CUDA(cudaHostGetDevicePointer(&device_sum, sum, 0));
  int* inside;
  CHECK_CUDA(cudaHostGetDevicePointer(&inside, a + 100, 0));
  EXPECT_EQ(inside - device_a, 100);
  cudaPointerAttributes attributes;
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, device_b));
  EXPECT_EQ(attributes.hostPointer == b && attributes.devicePointer == device_b, true);
  EXPECT_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeHost));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  const int blocks = (n + 255) / 256;

  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < n; ++i) {
      a[i] = round * i;
      b[i] = 1000 - i;
    }
    Add<<<blocks, 256, 0, stream>>>(device_a, device_b, device_sum, n);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(sum[i], round * i + 1000 - i);
  }

  // A pointer that no launch shows, and a host function between kernels.
  Hidden hidden{device_sum}, *device_hidden;
  CHECK_CUDA(cudaMalloc(&device_hidden, sizeof(hidden)));
  CHECK_CUDA(cudaMemcpy(device_hidden, &hidden, sizeof(hidden), cudaMemcpyHostToDevice));
  Pair pair{sum, a, n};
  for (int i = 0; i < n; ++i) sum[i] = i;
  AddOne<<<blocks, 256, 0, stream>>>(device_hidden, n);
  CHECK_CUDA(cudaLaunchHostFunc(stream, DoubleInto, &pair));
  Add<<<blocks, 256, 0, stream>>>(device_a, device_a, device_b, n);
  // A copy of the registered memory by either of its addresses.
  int* copy;
  CHECK_CUDA(cudaMalloc(&copy, bytes));
  std::vector<int> result(n);
  CHECK_CUDA(cudaMemcpyAsync(copy, b, bytes, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(device_sum, copy, bytes, cudaMemcpyDefault, stream));
  AddOne<<<blocks, 256, 0, stream>>>(device_hidden, n);
  CHECK_CUDA(cudaMemcpyAsync(result.data(), copy, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(a[i], 2 * (i + 1));
    EXPECT_EQ(b[i], 4 * (i + 1));
    EXPECT_EQ(result[i], 4 * (i + 1));
    EXPECT_EQ(sum[i], 4 * (i + 1) + 1);
  }

  // In a graph, with a host node and a copy between kernels.
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  AddOne<<<blocks, 256, 0, stream>>>(device_hidden, n);
  CHECK_CUDA(cudaLaunchHostFunc(stream, DoubleInto, &pair));
  CHECK_CUDA(cudaMemcpyAsync(copy, a, bytes, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(b, copy, bytes, cudaMemcpyDeviceToHost, stream));
  Add<<<blocks, 256, 0, stream>>>(device_a, device_b, device_sum, n);
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < n; ++i) sum[i] = i;
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) EXPECT_EQ(sum[i], 4 * (4 * (i + 1) + 1));
  CHECK_CUDA(cudaMemsetAsync(device_sum, 3, bytes, stream));
  Add<<<blocks, 256, 0, stream>>>(device_sum, device_sum, device_a, n);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) EXPECT_EQ(a[i], 2 * 0x03030303);
  EXPECT_EQ(own_a[2], 0);
  EXPECT_EQ(own_a[3 + n], 0);

  CHECK_CUDA(cudaHostUnregister(a));
  EXPECT_EQ(cudaHostGetDevicePointer(&inside, a, 0) == cudaSuccess, false);
  cudaGetLastError();
  CHECK_CUDA(cudaHostUnregister(b));
  CHECK_CUDA(cudaHostUnregister(sum));
  CHECK_CUDA(cudaDeviceSynchronize());
  std::puts("ok");
  return 0;
}
