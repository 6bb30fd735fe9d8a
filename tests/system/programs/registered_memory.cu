// Registered host memory (cudaHostRegister): asynchronous copies wait for nobody, read and write the memory when the stream
// reaches them, and are there for whatever comes after.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void AddTo(int* data, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += value;
}

static std::atomic<bool> gate_open{false};
static void CUDART_CB WaitForGate(void*) {
  while (!gate_open.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
static void Fill(int* data, int n, int value) {
  for (int i = 0; i < n; ++i) data[i] = value + i;
}
static void Expect(const int* data, int n, int value) {
  for (int i = 0; i < n; ++i) EXPECT_EQ(data[i], value + i);
}
struct Seen {
  const int* from;
  int value;
};
static void CUDART_CB Look(void* user) {
  auto* seen = static_cast<Seen*>(user);
  seen->value = *seen->from;
}

int main() {
  // More pieces than are asked for ahead over a link, the last one not full, and the memory in the middle of pages.
  const int n = 5'300'001, page_ints = 1024;
  std::vector<int> own_in(n + 2 * page_ints, -1), own_out(n + 2 * page_ints, -1);
  int* in = own_in.data() + 7;
  int* out = own_out.data() + 13;
  CHECK_CUDA(cudaHostRegister(in, n * sizeof(int), cudaHostRegisterDefault));
  CHECK_CUDA(cudaHostRegister(out, n * sizeof(int), cudaHostRegisterPortable));
  int *device, *other;
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&other, n * sizeof(int)));
  cudaStream_t stream, side;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const size_t bytes = n * sizeof(int);
  AddTo<<<1, 1, 0, stream>>>(device, 0, 0);  // loads the kernel: its first launch would wait for the gate below

  for (int round = 0; round < 3; ++round) {
    // Neither direction waits for the stream; the source is read late, and a smaller copy comes right as well.
    gate_open = false;
    Fill(in, n, 1);
    CHECK_CUDA(cudaLaunchHostFunc(stream, WaitForGate, nullptr));
    CHECK_CUDA(cudaMemcpyAsync(device, in, bytes, cudaMemcpyHostToDevice, stream));
    AddTo<<<(n + 255) / 256, 256, 0, stream>>>(device, n, 1);
    CHECK_CUDA(cudaMemcpyAsync(out, device, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaMemcpyAsync(other, in, 5 * sizeof(int), cudaMemcpyHostToDevice, stream));
    std::memset(out, 0, bytes);
    Fill(in, n, 100 + round);
    gate_open = true;
    CHECK_CUDA(cudaStreamSynchronize(stream));
    Expect(out, n, 101 + round);
    int five[5];
    CHECK_CUDA(cudaMemcpy(five, other, sizeof(five), cudaMemcpyDeviceToHost));
    Expect(five, 5, 100 + round);
  }
  EXPECT_EQ(own_out[12], -1);
  EXPECT_EQ(own_out[13 + n], -1);

  // Back and forth through the same memory, in stream order; then over an event to another stream, and to a host function.
  Fill(in, n, 7);
  CHECK_CUDA(cudaMemcpyAsync(device, in, bytes, cudaMemcpyHostToDevice, stream));
  AddTo<<<(n + 255) / 256, 256, 0, stream>>>(device, n, 3);
  CHECK_CUDA(cudaMemcpyAsync(out, device, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaMemsetAsync(device, 0, bytes, stream));
  CHECK_CUDA(cudaMemcpyAsync(device, out, bytes, cudaMemcpyHostToDevice, stream));
  AddTo<<<(n + 255) / 256, 256, 0, stream>>>(device, n, 20);
  CHECK_CUDA(cudaMemcpyAsync(out, device, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaEventRecord(event, stream));
  CHECK_CUDA(cudaStreamWaitEvent(side, event, 0));
  CHECK_CUDA(cudaMemcpyAsync(other, out, bytes, cudaMemcpyHostToDevice, side));
  Seen seen{out, 0};
  CHECK_CUDA(cudaLaunchHostFunc(side, Look, &seen));
  while (cudaEventQuery(event) == cudaErrorNotReady) std::this_thread::yield();
  Expect(out, n, 30);
  CHECK_CUDA(cudaStreamSynchronize(side));
  EXPECT_EQ(seen.value, 30);
  std::vector<int> result(n);
  CHECK_CUDA(cudaMemcpy(result.data(), other, bytes, cudaMemcpyDeviceToHost));
  Expect(result.data(), n, 30);

  // Many copies on their way at once, with rows apart.
  const int copies = 150, width = 1000;
  int* rows = nullptr;
  size_t pitch = 0;
  CHECK_CUDA(cudaMallocPitch(&rows, &pitch, width * sizeof(int), copies));
  gate_open = false;
  CHECK_CUDA(cudaLaunchHostFunc(stream, WaitForGate, nullptr));
  for (int i = 0; i < copies; ++i) {
    CHECK_CUDA(
        cudaMemcpyAsync(rows + i * pitch / sizeof(int), in + i * width, width * sizeof(int), cudaMemcpyHostToDevice, stream));
  }
  CHECK_CUDA(
      cudaMemcpy2DAsync(out, width * sizeof(int), rows, pitch, width * sizeof(int), copies, cudaMemcpyDeviceToHost, stream));
  Fill(in, n, 5000);
  gate_open = true;
  CHECK_CUDA(cudaDeviceSynchronize());
  Expect(out, copies * width, 5000);

  // Unregistering waits for what is on its way; afterwards the memory is as any other.
  gate_open = false;
  std::memset(out, 0, bytes);
  CHECK_CUDA(cudaLaunchHostFunc(stream, WaitForGate, nullptr));
  CHECK_CUDA(cudaMemcpyAsync(out, device, bytes, cudaMemcpyDeviceToHost, stream));
  std::thread opener([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate_open = true;
  });
  CHECK_CUDA(cudaHostUnregister(out));
  Expect(out, n, 30);
  opener.join();
  EXPECT_EQ(static_cast<int>(cudaHostUnregister(out)), static_cast<int>(cudaErrorHostMemoryNotRegistered));
  CHECK_CUDA(cudaMemcpyAsync(out, rows, width * sizeof(int), cudaMemcpyDeviceToHost, stream));
  Expect(out, width, 5000);
  CHECK_CUDA(cudaHostUnregister(in));
  CHECK_CUDA(cudaDeviceSynchronize());
  std::puts("ok");
  return 0;
}
