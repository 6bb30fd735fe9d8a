// Results that are copied to pinned memory, a few bytes at a time: they are there when anything says so, in the order of the
// streams.
#include <cuda.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"

namespace {

__global__ void Put(int* to, int value) { *to = value; }
__global__ void PutRow(int* to, int value, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = value + i;
}
__global__ void Add(int* to, const int* from) { *to += *from; }
__global__ void SpinThenClear(volatile int* flag) {
  while (*flag == 0) {
  }
  *flag = 0;
}
__global__ void TellAndWait(volatile int* here, const volatile int* go_on) {
  *here = 1;
  while (*go_on == 0) {
  }
}

volatile int* Pinned(int n) {
  int* memory;
  CHECK_CUDA(cudaMallocHost(&memory, n * sizeof(int)));
  std::memset(memory, 0, n * sizeof(int));
  return memory;
}
void Free(volatile int* memory) { CHECK_CUDA(cudaFreeHost(const_cast<int*>(memory))); }

cudaStream_t Stream() {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

int* Device(int n = 1) {
  int* memory;
  CHECK_CUDA(cudaMalloc(&memory, n * sizeof(int)));
  CHECK_CUDA(cudaMemset(memory, 0, n * sizeof(int)));
  CHECK_CUDA(cudaDeviceSynchronize());
  return memory;
}

void ToHost(volatile int* to, const int* from, int n, cudaStream_t stream) {
  CHECK_CUDA(cudaMemcpyAsync(const_cast<int*>(to), from, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
}
void ToDevice(int* to, const volatile int* from, int n, cudaStream_t stream) {
  CHECK_CUDA(cudaMemcpyAsync(to, const_cast<const int*>(from), n * sizeof(int), cudaMemcpyHostToDevice, stream));
}

// Not on the emulated GPU.
bool OnNvidia() {
  char name[64];
  CHECK_DRIVER(cuDeviceGetName(name, sizeof(name), 0));
  return std::strstr(name, "NVIDIA") != nullptr;
}

// Keeps a stream from going on.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    CHECK_CUDA(cudaLaunchHostFunc(
        stream,
        [](void* open) {
          while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
        },
        &open_));
  }
  void Open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

// A synchronous copy in the default stream waits for those that were called before. Before anything else here, since who has
// had host functions or copies of large pinned memory in streams waits in any case.
void CopiedRightAway() {
  const int n = 100000;
  int* device = Device(n);
  volatile int* middle = Pinned(1);
  for (int round = 1; round <= 50; ++round) {
    PutRow<<<(n + 127) / 128, 128>>>(device, round, n);
    ToHost(middle, device + n - 1, 1, nullptr);
    CHECK_CUDA(cudaMemcpy(device, const_cast<int*>(middle), sizeof(int), cudaMemcpyHostToDevice));
    int back = 0;
    CHECK_CUDA(cudaMemcpy(&back, device, sizeof(back), cudaMemcpyDeviceToHost));
    EXPECT_EQ(back, round + n - 1);
  }
  CHECK_CUDA(cudaFree(device));
  Free(middle);
}

// However the program comes to know that the copy is done.
void Told() {
  cudaStream_t stream = Stream(), other = Stream();
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int* device = Device();
  volatile int* result = Pinned(1);
  struct Seen {
    volatile int* result;
    int value;
  } seen{result, 0};
  for (int round = 1; round <= 400; ++round) {
    Put<<<1, 1, 0, stream>>>(device, round);
    ToHost(result, device, 1, stream);
    switch (round % 8) {
      case 0: CHECK_CUDA(cudaStreamSynchronize(stream)); break;
      case 1:
        CHECK_CUDA(cudaEventRecord(event, stream));
        CHECK_CUDA(cudaEventSynchronize(event));
        break;
      case 2:
        CHECK_CUDA(cudaEventRecord(event, stream));
        while (cudaEventQuery(event) != cudaSuccess) std::this_thread::yield();
        break;
      case 3:
        while (cudaStreamQuery(stream) != cudaSuccess) std::this_thread::yield();
        break;
      case 4: CHECK_CUDA(cudaDeviceSynchronize()); break;
      case 5:  // a host function behind it, which knows before anybody
        seen.value = 0;
        CHECK_CUDA(cudaLaunchHostFunc(
            stream, [](void* user) { static_cast<Seen*>(user)->value = *static_cast<Seen*>(user)->result; }, &seen));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        EXPECT_EQ(seen.value, round);
        break;
      case 6:  // another stream that waits for it, another thread that waits for that one
        CHECK_CUDA(cudaEventRecord(event, stream));
        CHECK_CUDA(cudaStreamWaitEvent(other, event, 0));
        std::thread([other] { CHECK_CUDA(cudaStreamSynchronize(other)); }).join();
        break;
      case 7:  // nobody
        while (*result != round) std::this_thread::yield();
        break;
    }
    EXPECT_EQ(*result, round);
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaFree(device));
  Free(result);
}

void AllSizes() {
  const int n = 40000;
  cudaStream_t stream = Stream();
  int* device = Device(n);
  volatile int* result = Pinned(n + 2);
  PutRow<<<(n + 127) / 128, 128, 0, stream>>>(device, 1, n);
  for (int size : {1, 2, 3, 47, 48, 49, 1000, 16383, 16384, 16385, n}) {
    for (int i = 0; i < n + 2; ++i) result[i] = -5;
    ToHost(result + 1, device, size, stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n + 2; ++i) EXPECT_EQ(result[i], i >= 1 && i <= size ? i : -5);
  }
  CHECK_CUDA(cudaFree(device));
  Free(result);
}

// Copies that write the same bytes, in one stream and in two that wait for each other in either order.
void Overlapping() {
  const int n = 100;
  const int large = 20000;  // too large to be told at once
  cudaStream_t first = Stream(), second = Stream();
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int* device = Device(2 * large);
  volatile int* result = Pinned(large + n);
  for (int round = 0; round < 40; ++round) {
    Gate gate(first);
    PutRow<<<(2 * large + 127) / 128, 128, 0, first>>>(device, round, 2 * large);
    const bool mixed = round % 4 >= 2;
    ToHost(result, device, n, first);
    ToHost(result + n / 2, device + 1000, mixed ? large : n, first);
    if (round % 2 == 0) {
      ToHost(result + n / 4, device + 2000, n / 2, first);
    } else {
      CHECK_CUDA(cudaEventRecord(event, first));
      CHECK_CUDA(cudaStreamWaitEvent(second, event, 0));
      ToHost(result + n / 4, device + 2000, n / 2, second);
      CHECK_CUDA(cudaEventRecord(event, second));
      CHECK_CUDA(cudaStreamWaitEvent(first, event, 0));
    }
    ToHost(result + n / 2, device + 3000, 1, first);
    gate.Open();
    CHECK_CUDA(cudaStreamSynchronize(first));
    for (int i = 0; i < n; ++i) {
      const int written = i == n / 2 ? 3000 : i >= n / 4 && i < n * 3 / 4 ? 2000 + i - n / 4 : i < n / 2 ? i : 1000 + i - n / 2;
      EXPECT_EQ(result[i], round + written);
    }
  }
  CHECK_CUDA(cudaStreamSynchronize(second));
  CHECK_CUDA(cudaFree(device));
  Free(result);
}

// What was copied to the host goes back to the device in stream order: by copies of all kinds and through host functions.
void BackAgain() {
  cudaStream_t stream = Stream();
  int* device = Device(3);
  volatile int* middle = Pinned(1);
  for (int round = 1; round <= 60; ++round) {
    *middle = -1;
    {
      Gate gate(stream);
      Put<<<1, 1, 0, stream>>>(device, round);
      ToHost(middle, device, 1, stream);
      ToDevice(device + 1, middle, 1, stream);
      CHECK_CUDA(cudaLaunchHostFunc(
          stream, [](void* middle) { *static_cast<volatile int*>(middle) *= 3; }, const_cast<int*>(middle)));
      ToDevice(device + 2, middle, 1, stream);
      gate.Open();
      CHECK_CUDA(cudaStreamSynchronize(stream));
    }
    int back[3];
    CHECK_CUDA(cudaMemcpy(back, device, sizeof(back), cudaMemcpyDeviceToHost));
    EXPECT_EQ(back[0], round);
    EXPECT_EQ(back[1], round);
    EXPECT_EQ(back[2], 3 * round);
  }
  CHECK_CUDA(cudaFree(device));
  Free(middle);
}

// The program changes the source after the call, behind something that it lets go on afterwards: whatever may keep a stream
// waiting that had nothing to do before.
void SourceChangesBeforeTheCopy() {
  cudaStream_t stream = Stream(), other = Stream(), blocking;
  cudaEvent_t event;
  CHECK_CUDA(cudaStreamCreate(&blocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int* device = Device(2);
  int* flag = device + 1;
  volatile int* source = Pinned(1);
  const bool nvidia = OnNvidia();
  // Loaded now: loading may wait for everything else, and there will be a stream that is held.
  CHECK_CUDA(cudaMemset(flag, 1, sizeof(int)));
  SpinThenClear<<<1, 1, 0, stream>>>(flag);
  CHECK_CUDA(cudaMemsetAsync(flag, 1, sizeof(int), other));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemset(flag, 0, sizeof(int)));
  enum Way { kOwn, kOther, kDefaultBehindBlocking, kBlockingBehindDefault, kThreadBehindDefault, kKernel, kBehindCopies, kWays };
  for (int round = 1; round <= 10 * kWays; ++round) {
    const Way way = static_cast<Way>(round % kWays);
    const cudaStream_t copies = way == kDefaultBehindBlocking   ? nullptr
                                : way == kBlockingBehindDefault ? blocking
                                : way == kThreadBehindDefault   ? cudaStreamPerThread
                                                                : stream;
    const cudaStream_t held = way == kOther                                                  ? other
                              : way == kDefaultBehindBlocking                                ? blocking
                              : way == kBlockingBehindDefault || way == kThreadBehindDefault ? nullptr
                                                                                             : stream;
    CHECK_CUDA(cudaDeviceSynchronize());
    *source = -round;
    if (way == kBehindCopies) ToDevice(device, source, 1, copies);
    {
      Gate gate(way == kKernel ? other : held);
      if (way == kOther) {
        CHECK_CUDA(cudaEventRecord(event, other));
        CHECK_CUDA(cudaStreamWaitEvent(stream, event, 0));
      }
      if (way == kKernel) {
        CHECK_CUDA(cudaMemsetAsync(flag, 1, sizeof(int), other));
        SpinThenClear<<<1, 1, 0, stream>>>(flag);
      }
      ToDevice(device, source, 1, copies);
      *source = round;
      gate.Open();
      CHECK_CUDA(cudaDeviceSynchronize());
    }
    int back = 0;
    CHECK_CUDA(cudaMemcpy(&back, device, sizeof(back), cudaMemcpyDeviceToHost));
    // NVIDIA's driver was seen to read such copies when they were called, though the default stream held theirs, or theirs it
    // (580).
    const bool by_default_stream = way == kDefaultBehindBlocking || way == kBlockingBehindDefault || way == kThreadBehindDefault;
    if (!by_default_stream || !nvidia || back != -round) EXPECT_EQ(back, round);
  }
  CHECK_CUDA(cudaFree(device));
  Free(source);
}

// The same behind a wait of all streams of the context. Last: from then on no stream is known to be idle.
void SourceChangesBehindAContextsWait() {
  cudaStream_t stream = Stream(), other = Stream();
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int* device = Device();
  volatile int* source = Pinned(1);
  CHECK_CUDA(cudaDeviceSynchronize());
  *source = 1;
  Gate gate(other);
  CHECK_CUDA(cudaEventRecord(event, other));
  CUcontext context;
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  CHECK_DRIVER(cuCtxWaitEvent(context, event));
  ToDevice(device, source, 1, stream);
  *source = 2;
  gate.Open();
  CHECK_CUDA(cudaDeviceSynchronize());
  int back = 0;
  CHECK_CUDA(cudaMemcpy(&back, device, sizeof(back), cudaMemcpyDeviceToHost));
  if (!OnNvidia() || back != 1) EXPECT_EQ(back, 2);  // as above (580)
  CHECK_CUDA(cudaFree(device));
  Free(source);
}

// In and out again, waiting each time: nothing else is going on when either copy is called.
void InAndOut() {
  cudaStream_t streams[] = {Stream(), nullptr};
  int* device = Device();
  volatile int* memory = Pinned(1);
  for (int round = 1; round <= 200; ++round) {
    cudaStream_t stream = streams[round % 2];
    *memory = round;
    ToDevice(device, memory, 1, stream);
    *memory = 0;  // too early natively; so may be seen, or not
    CHECK_CUDA(cudaStreamSynchronize(stream));
    *memory = round;
    ToDevice(device, memory, 1, stream);
    Add<<<1, 1, 0, stream>>>(device, device);
    ToHost(memory, device, 1, stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(*memory, 2 * round);
  }
  CHECK_CUDA(cudaFree(device));
  Free(memory);
}

// Memory that kernels use as well, from some time on.
void UsedByKernels() {
  cudaStream_t stream = Stream();
  int* device = Device(2);
  for (int round = 1; round <= 20; ++round) {
    volatile int* memory = Pinned(4);
    CHECK_CUDA(cudaMemsetAsync(device + 1, 0, sizeof(int), stream));
    Put<<<1, 1, 0, stream>>>(device, round);
    ToHost(memory, device, 1, stream);
    Add<<<1, 1, 0, stream>>>(device + 1, const_cast<const int*>(memory));
    ToHost(memory + 1, device + 1, 1, stream);
    Add<<<1, 1, 0, stream>>>(const_cast<int*>(memory + 2), const_cast<const int*>(memory + 1));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(memory[0], round);
    EXPECT_EQ(memory[1], round);
    EXPECT_EQ(memory[2], round);
    Free(memory);
  }
  CHECK_CUDA(cudaFree(device));
}

// A kernel that runs on says by a flag in mapped memory that the copies before it are done.
void BehindAFlag() {
  cudaStream_t stream = Stream();
  int* device = Device();
  volatile int* result = Pinned(1);
  volatile int* here = Pinned(1);
  volatile int* go_on = Pinned(1);
  for (int round = 1; round <= 20; ++round) {
    *here = *go_on = 0;
    Put<<<1, 1, 0, stream>>>(device, round);
    ToHost(result, device, 1, stream);
    TellAndWait<<<1, 1, 0, stream>>>(here, go_on);
    while (*here == 0) std::this_thread::yield();
    EXPECT_EQ(*result, round);
    *go_on = 1;
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  CHECK_CUDA(cudaFree(device));
  for (volatile int* memory : {result, here, go_on}) Free(memory);
}

// More of them than can be told at once.
void Many() {
  const int n = 6000;
  const int rows = 100;
  const int row = 4000;
  cudaStream_t streams[] = {Stream(), Stream(), Stream()};
  int* device = Device(n);
  volatile int* results = Pinned(n);
  volatile int* large = Pinned(rows * row);
  PutRow<<<(n + 127) / 128, 128, 0, streams[0]>>>(device, 1, n);
  CHECK_CUDA(cudaStreamSynchronize(streams[0]));
  Gate gates[] = {Gate(streams[0]), Gate(streams[1]), Gate(streams[2])};
  // NVIDIA's driver takes some thousand of them for streams that are held; then the call waits for the stream.
  const int held = OnNvidia() ? 600 : n + rows;
  for (int i = 0; i < n + rows; ++i) {
    if (i == held)
      for (Gate& gate : gates) gate.Open();
    const int k = i - n;
    k < 0 ? ToHost(results + i, device + i, 1, streams[i % 3]) : ToHost(large + k * row, device + k, row, streams[k % 3]);
  }
  for (Gate& gate : gates) gate.Open();
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT_EQ(results[i], i + 1);
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < row; ++k) EXPECT_EQ(large[i * row + k], i + k + 1);
  }
  CHECK_CUDA(cudaFree(device));
  Free(results);
  Free(large);
}

// Memory, streams and events go while copies are under way.
void Ends() {
  int* device = Device();
  for (int round = 1; round <= 20; ++round) {
    cudaStream_t stream = Stream();
    volatile int* result = Pinned(1);
    int* ordinary = new int[100]();
    CHECK_CUDA(cudaHostRegister(ordinary, 100 * sizeof(int), 0));
    Put<<<1, 1, 0, stream>>>(device, round);
    for (int i = 0; i < 50; ++i) ToHost(result, device, 1, stream);
    for (int i = 0; i < 50; ++i) ToHost(ordinary + i, device, 1, stream);
    CHECK_CUDA(cudaStreamDestroy(stream));
    Free(result);
    CHECK_CUDA(cudaHostUnregister(ordinary));
    EXPECT_EQ(ordinary[49], round);
    delete[] ordinary;
  }
  CHECK_CUDA(cudaFree(device));
}

// Captured copies are nodes, as ever, between others that are not.
void Captured() {
  cudaStream_t stream = Stream();
  int* device = Device();
  volatile int* result = Pinned(2);
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Add<<<1, 1, 0, stream>>>(device, device);
  ToHost(result + 1, device, 1, stream);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&instance, graph, 0));
  for (int round = 1; round <= 20; ++round) {
    Put<<<1, 1, 0, stream>>>(device, round);
    ToHost(result + 1, device, 1, stream);
    CHECK_CUDA(cudaGraphLaunch(instance, stream));
    ToHost(result, device, 1, stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(result[0], 2 * round);
    EXPECT_EQ(result[1], 2 * round);
  }
  CHECK_CUDA(cudaGraphExecDestroy(instance));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaFree(device));
  Free(result);
}

}  // namespace

int main() {
  CopiedRightAway();
  Told();
  AllSizes();
  Overlapping();
  BackAgain();
  SourceChangesBeforeTheCopy();
  InAndOut();
  UsedByKernels();
  BehindAFlag();
  Many();
  Ends();
  Captured();
  SourceChangesBehindAContextsWait();
  std::puts("ok");
}
