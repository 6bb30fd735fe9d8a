// Kernels, sets, graphs, host functions and stream operations that use pinned host memory where it lies.
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

__global__ void AddToEveryFourth(unsigned char* bytes, int first, int n) {
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x) + first;
  if (i < n) bytes[i] += 1;
}
__global__ void AddInto(int* to, const int* from, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}
__global__ void AddWhenTold(const volatile int* told, int value, int* sum) {
  while (*told != value) {
  }
  *sum += value;
}
__global__ void TellAndWait(volatile int* here, const volatile int* go_on) {
  *here = 1;
  while (*go_on == 0) {
  }
  *here = 2;
}
struct Table {
  int count;
  int* rows[2];
};
__global__ void AddRows(const Table* table, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int row = 0; row < table->count && i < n; ++row) table->rows[row][i] += 1 + row;
}
__global__ void Fetch(cudaTextureObject_t texture, int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = tex1Dfetch<int>(texture, i);
}

constexpr int kThreads = 128;
int Blocks(int n) { return (n + kThreads - 1) / kThreads; }

int* Pinned(int n, int value = 0) {
  int* memory;
  CHECK_CUDA(cudaMallocHost(&memory, n * sizeof(int)));
  for (int i = 0; i < n; ++i) memory[i] = value;
  return memory;
}

cudaStream_t Stream() {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// What a kernel has written is read by a copy that is called while it may still run. Before anything else here, since who has had
// host functions or copies of pinned memory in streams waits in any case.
void CopiedRightAway() {
  const int n = 1000;
  int* row = Pinned(n);
  int* one = Pinned(n, 1);
  int* device;
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
  for (int round = 1; round <= 20; ++round) {
    AddInto<<<Blocks(n), kThreads>>>(row, one, n);
    CHECK_CUDA(cudaMemcpy(device, row, n * sizeof(int), cudaMemcpyHostToDevice));
    std::vector<int> back(n);
    CHECK_CUDA(cudaMemcpy(back.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int value : back) EXPECT_EQ(value, round);
  }
  CHECK_CUDA(cudaFree(device));
  for (int* memory : {row, one}) CHECK_CUDA(cudaFreeHost(memory));
}

// Two streams and the program change neighbouring bytes, and wait for each other only in the end.
void Neighbours() {
  const int n = 20001;
  const int rounds = 25;
  unsigned char* bytes;
  CHECK_CUDA(cudaMallocHost(&bytes, n));
  std::memset(bytes, 7, n);
  cudaStream_t streams[2] = {Stream(), Stream()};
  for (int round = 0; round < rounds; ++round) {
    for (int k = 0; k < 2; ++k) AddToEveryFourth<<<Blocks(n), kThreads, 0, streams[k]>>>(bytes, k, n);
    for (int i = 2; i < n; i += 4) bytes[i] += 1;
  }
  for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) EXPECT_EQ(int{bytes[i]}, 7 + (i % 4 == 3 ? 0 : rounds));
  // What the program wrote last is there for a kernel, too.
  AddToEveryFourth<<<Blocks(n), kThreads>>>(bytes, 2, n);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 2; i < n; i += 4) EXPECT_EQ(int{bytes[i]}, 7 + rounds + 1);
  CHECK_CUDA(cudaFreeHost(bytes));
}

struct Step {
  int* from;
  int* to;
  int n;
};
void CUDART_CB DoubleInto(void* user) {
  const auto* step = static_cast<const Step*>(user);
  for (int i = 0; i < step->n; ++i) step->to[i] = 2 * step->from[i];
}

// Kernel, host function, copies and a kernel on another stream, each on what the one before has left in pinned memory.
void Chain() {
  const int n = 5000;
  const size_t bytes = n * sizeof(int);
  int* a = Pinned(n, 1);
  int* b = Pinned(n);
  int* c = Pinned(n);
  int* device;
  CHECK_CUDA(cudaMalloc(&device, bytes));
  cudaStream_t first = Stream(), second = Stream();
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreate(&event));
  Step step{a, b, n};
  int expected = 1;
  for (int round = 0; round < 8; ++round) {
    AddInto<<<Blocks(n), kThreads, 0, first>>>(a, a, n);                           // a = 2 e
    CHECK_CUDA(cudaLaunchHostFunc(first, DoubleInto, &step));                      // b = 4 e
    CHECK_CUDA(cudaMemcpyAsync(device, b, bytes, cudaMemcpyHostToDevice, first));  // device = 4 e
    AddInto<<<Blocks(n), kThreads, 0, first>>>(b, device, n);                      // b = 8 e
    CHECK_CUDA(cudaMemcpyAsync(c, device, bytes, cudaMemcpyDeviceToHost, first));  // c = 4 e
    CHECK_CUDA(cudaEventRecord(event, first));
    CHECK_CUDA(cudaStreamWaitEvent(second, event));
    AddInto<<<Blocks(n), kThreads, 0, second>>>(c, b, n);                    // c = 12 e
    CHECK_CUDA(cudaMemcpyAsync(a, c, bytes, cudaMemcpyHostToHost, second));  // a = 12 e
    CHECK_CUDA(cudaMemsetAsync(c, 0, bytes, second));
    CHECK_CUDA(cudaEventRecord(event, second));
    CHECK_CUDA(cudaStreamWaitEvent(first, event));
    expected *= 12;
  }
  CHECK_CUDA(cudaEventSynchronize(event));
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(a[i], expected);
    EXPECT_EQ(c[i], 0);
  }
  for (int* memory : {a, b, c}) CHECK_CUDA(cudaFreeHost(memory));
  CHECK_CUDA(cudaFree(device));
}

// Pointers that only device memory holds, larger memory than any buffer between, and memory that comes again.
void TablesAndAllocations() {
  const int n = 1 << 20;
  int* rows[] = {Pinned(n, 3), Pinned(n, 5)};
  const Table table{2, {rows[0], rows[1]}};
  Table* device_table;
  CHECK_CUDA(cudaMalloc(&device_table, sizeof(table)));
  CHECK_CUDA(cudaMemcpy(device_table, &table, sizeof(table), cudaMemcpyHostToDevice));
  AddRows<<<Blocks(n), kThreads>>>(device_table, n);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(rows[0][i], 4);
    EXPECT_EQ(rows[1][i], 7);
  }
  for (int* row : rows) CHECK_CUDA(cudaFreeHost(row));
  for (int round = 0; round < 20; ++round) {
    int* again = Pinned(1000, round % 2 == 0 ? round : 0);
    AddInto<<<Blocks(1000), kThreads>>>(again, again, 1000);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(again[i], round % 2 == 0 ? 2 * round : 0);
    CHECK_CUDA(cudaFreeHost(again));
  }
  CHECK_CUDA(cudaFree(device_table));
}

void Graphs() {
  const int n = 3000;
  int* a = Pinned(n, 1);
  int* b = Pinned(n, 10);
  int* other = Pinned(n, 100);
  cudaStream_t stream = Stream();
  Step step{b, other, n};
  // Captured: a kernel, a set and a host function.
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  AddInto<<<Blocks(n), kThreads, 0, stream>>>(b, a, n);
  CHECK_CUDA(cudaMemsetAsync(a, 1, n * sizeof(int), stream));
  CHECK_CUDA(cudaLaunchHostFunc(stream, DoubleInto, &step));
  AddInto<<<Blocks(n), kThreads, 0, stream>>>(other, a, n);
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < n; ++i) a[i] = i;
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  const int ones = 0x01010101;
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(a[i], ones);
    EXPECT_EQ(b[i], 10 + i + ones);
    EXPECT_EQ(other[i], 2 * (10 + i + ones) + ones);
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));

  // Made by hand: a set and a kernel, whose parameters then become memory that no kernel has used yet.
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  cudaMemsetParams set{};
  set.dst = a;
  set.value = 5;
  set.elementSize = 4;
  set.width = n;
  set.height = 1;
  cudaGraphNode_t set_node, kernel_node;
  CHECK_CUDA(cudaGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set));
  int count = n;
  void* arguments[] = {&b, &a, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(&AddInto);
  kernel.gridDim = dim3(Blocks(n));
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&kernel_node, graph, &set_node, 1, &kernel));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  int* fresh = Pinned(n, 40);
  arguments[0] = &fresh;
  CHECK_CUDA(cudaGraphExecKernelNodeSetParams(exec, kernel_node, &kernel));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(a[i], 5);
    EXPECT_EQ(fresh[i], 45);
    EXPECT_EQ(b[i], 10 + i + ones);
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  for (int* memory : {a, b, other, fresh}) CHECK_CUDA(cudaFreeHost(memory));
}

struct Counter {
  int* value;
};
void CUDART_CB AddOne(void* user) { *static_cast<Counter*>(user)->value += 1; }

// Many streams, each with a counter of its own beside the others'.
void ManyStreams() {
  const int count = 6;
  const int rounds = 30;
  int* counters = Pinned(count);
  int* one = Pinned(1, 1);
  std::vector<Counter> own(count);
  std::vector<cudaStream_t> streams(count);
  for (int i = 0; i < count; ++i) {
    own[i].value = counters + i;
    streams[i] = Stream();
  }
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) {
      AddInto<<<1, 1, 0, streams[i]>>>(counters + i, one, 1);
      CHECK_CUDA(cudaLaunchHostFunc(streams[i], AddOne, &own[i]));
    }
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i) EXPECT_EQ(counters[i], 2 * rounds);
  CHECK_CUDA(cudaFreeHost(counters));
  CHECK_CUDA(cudaFreeHost(one));
}

// A running kernel waits for flags that the program sets when it has enqueued everything else.
void Flags() {
  int* flags = Pinned(2);
  int* sum = Pinned(1);
  cudaStream_t streams[2] = {Stream(), Stream()};
  for (int round = 1; round <= 20; ++round) {
    // Of four bytes, and one byte that changes once more.
    const int values[] = {round % 2 == 0 ? round : 0x01020304 * round, round % 2 == 0 ? 255 : 256};
    for (int k = 0; k < 2; ++k) AddWhenTold<<<1, 1, 0, streams[0]>>>(flags + k, values[k], sum);
    AddInto<<<1, 1, 0, streams[1]>>>(sum + 0, flags + 1, 0);  // other work in between changes nothing
    flags[0] = values[0];
    flags[1] = values[1];
    CHECK_CUDA(cudaStreamSynchronize(streams[0]));
    CHECK_CUDA(cudaStreamSynchronize(streams[1]));
    EXPECT_EQ(*sum, values[0] + values[1]);
    flags[0] = flags[1] = *sum = 0;
  }
  for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFreeHost(flags));
  CHECK_CUDA(cudaFreeHost(sum));
}

// A kernel that was launched long ago starts when the device's memory says so, and finds what the program wrote before that.
void WrittenBehindTheLaunch() {
  const int n = 1000;
  int* from = Pinned(n, 1);
  int* sum = Pinned(n);
  cudaStream_t waiting = Stream(), other = Stream();
  unsigned* word;
  CHECK_CUDA(cudaMalloc(&word, sizeof(*word)));
  for (int round = 1; round <= 20; ++round) {
    CHECK_CUDA(cudaMemset(word, 0, sizeof(*word)));
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_DRIVER(cuStreamWaitValue32(waiting, reinterpret_cast<CUdeviceptr>(word), 7, CU_STREAM_WAIT_VALUE_EQ));
    AddInto<<<Blocks(n), kThreads, 0, waiting>>>(sum, from, n);
    for (int i = 0; i < n; ++i) from[i] = round + i;
    const unsigned seven = 7;
    if (round % 3 == 0) CHECK_DRIVER(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(word), 7, 1, other));
    if (round % 3 == 1) CHECK_CUDA(cudaMemcpyAsync(word, &seven, sizeof(seven), cudaMemcpyHostToDevice, other));
    if (round % 3 == 2) CHECK_DRIVER(cuStreamWriteValue32(other, reinterpret_cast<CUdeviceptr>(word), 7, 0));
    CHECK_CUDA(cudaStreamSynchronize(waiting));
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(sum[i], round + i);
      sum[i] = 0;
    }
  }
  CHECK_CUDA(cudaFree(word));
  for (cudaStream_t stream : {waiting, other}) CHECK_CUDA(cudaStreamDestroy(stream));
  for (int* memory : {from, sum}) CHECK_CUDA(cudaFreeHost(memory));
}

// The program looks for what a kernel writes without a call, while it runs and when it is done.
void SeenWithoutACall() {
  int* words = Pinned(64);
  const auto await = [&](int value) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (*const_cast<volatile int*>(words) != value && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    EXPECT_EQ(*const_cast<volatile int*>(words), value);
  };
  for (int round = 0; round < 10; ++round) {
    words[0] = words[32] = 0;
    TellAndWait<<<1, 1>>>(words, words + 32);
    await(1);
    words[32] = 1;
    await(2);
  }
  CHECK_CUDA(cudaFreeHost(words));
}

// `mirrored`: the server's stream would not see what the program writes, so it must not wait for that.
void ValuesAndTextures(bool mirrored) {
  cudaStream_t stream = Stream();
  const int n = 256;
  int* words = Pinned(n, 9);
  const auto address = reinterpret_cast<CUdeviceptr>(words);
  words[1] = 4;
  CHECK_DRIVER(cuStreamWriteValue32(stream, address, 0, 0));
  CHECK_DRIVER(cuStreamWriteValue32(stream, address + 8, 77, 0));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(words[0], 0);
  EXPECT_EQ(words[1], 4);
  EXPECT_EQ(words[2], 77);
  EXPECT_EQ(static_cast<int>(cuStreamWaitValue32(stream, address + 8, 77, CU_STREAM_WAIT_VALUE_EQ)),
            static_cast<int>(mirrored ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS));
  CHECK_CUDA(cudaStreamSynchronize(stream));

  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = words;
  resource.res.linear.desc = cudaCreateChannelDesc<int>();
  resource.res.linear.sizeInBytes = n * sizeof(int);
  cudaTextureDesc description{};
  description.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture;
  CHECK_CUDA(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  int* out = Pinned(n);
  for (int i = 0; i < n; ++i) words[i] = 3 * i;
  Fetch<<<Blocks(n), kThreads, 0, stream>>>(texture, out, n);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], 3 * i);
  CHECK_CUDA(cudaDestroyTextureObject(texture));
  CHECK_CUDA(cudaFreeHost(words));
  CHECK_CUDA(cudaFreeHost(out));
}

// Memory that no call has shown to be used: over a mirrored channel a kernel that finds it all the same must fail, never read
// what is old. Nothing works after that.
void UnseenPointer() {
  int* row = Pinned(100, 3);
  std::vector<char> large(64 << 10);  // more than is looked through for pointers
  const Table table{1, {row, row}};
  std::memcpy(large.data(), &table, sizeof(table));
  Table* device_table;
  CHECK_CUDA(cudaMalloc(&device_table, large.size()));
  CHECK_CUDA(cudaMemcpy(device_table, large.data(), large.size(), cudaMemcpyHostToDevice));
  AddRows<<<1, kThreads>>>(device_table, 100);
  EXPECT_EQ(static_cast<int>(cudaDeviceSynchronize()), static_cast<int>(cudaErrorIllegalAddress));
}

}  // namespace

// --mirrored: the channel's ends share no pages, so what needs shared pages is refused.
int main(int argc, char** argv) {
  const bool mirrored = argc > 1 && std::strcmp(argv[1], "--mirrored") == 0;
  CopiedRightAway();
  Neighbours();
  Chain();
  TablesAndAllocations();
  Graphs();
  ManyStreams();
  Flags();
  WrittenBehindTheLaunch();
  SeenWithoutACall();
  ValuesAndTextures(mirrored);
  CHECK_CUDA(cudaDeviceSynchronize());
  if (mirrored) UnseenPointer();
  std::puts("ok");
  return 0;
}
