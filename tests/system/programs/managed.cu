// Managed memory the way programs use it: pointers inside it, touches from several threads, streams, hints, copies, and
// variables. Results equal those of the processor.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__managed__ int counter = 7;
__managed__ float table[1000];
struct Node {
  int value;
  Node* next;
};
__managed__ Node* chain;

__global__ void Add(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

__global__ void AddToList(Node* head, int amount) {
  for (Node* node = head; node != nullptr; node = node->next) node->value += amount;
}

struct Matrix {
  int rows, columns;
  float* cells;
};

__global__ void Scale(Matrix* matrix, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < matrix->rows * matrix->columns) matrix->cells[i] *= by;
}

__global__ void Increment(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += 1;
}

__global__ void UseVariables() {
  counter += 3;
  for (int i = 0; i < 1000; ++i) table[i] = 2 * table[i] + static_cast<float>(i);
  for (Node* node = chain; node != nullptr; node = node->next) node->value *= 10;
}

template <typename T>
T* Managed(size_t count) {
  T* memory = nullptr;
  CHECK_CUDA(cudaMallocManaged(&memory, count * sizeof(T)));
  return memory;
}

static void VectorAdd() {
  const int n = 300000;
  float* a = Managed<float>(n);
  float* b = Managed<float>(n);
  float* sum = Managed<float>(n);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i + round);
      b[i] = static_cast<float>(2 * i);
    }
    Add<<<(n + 255) / 256, 256>>>(a, b, sum, n);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT_EQ(sum[i], static_cast<float>(3 * i + round));
  }
  // Without anybody synchronising by name: a copy back does.
  b[17] = 1000;
  Add<<<(n + 255) / 256, 256>>>(a, b, sum, n);
  std::vector<float> copy(n);
  CHECK_CUDA(cudaMemcpy(copy.data(), sum, n * sizeof(float), cudaMemcpyDeviceToHost));
  EXPECT_EQ(copy[17], 1000.0f + 19);
  EXPECT_EQ(copy[18], 3.0f * 18 + 2);
  for (float* memory : {a, b, sum}) CHECK_CUDA(cudaFree(memory));
}

static void LinkedList() {
  Node* head = nullptr;
  for (int i = 0; i < 200; ++i) {
    Node* node = Managed<Node>(1);
    node->value = i;
    node->next = head;
    head = node;
  }
  AddToList<<<1, 1>>>(head, 5);
  CHECK_CUDA(cudaDeviceSynchronize());
  int expected = 199 + 5;
  for (Node* node = head; node != nullptr; node = node->next) EXPECT_EQ(node->value, expected--);
  head->next->value = -1;
  AddToList<<<1, 1>>>(head, 1);
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(head->value, 205);
  EXPECT_EQ(head->next->value, 0);
  while (head != nullptr) {
    Node* next = head->next;
    CHECK_CUDA(cudaFree(head));
    head = next;
  }
}

static void NestedPointers() {
  Matrix* matrix = Managed<Matrix>(1);
  matrix->rows = 37;
  matrix->columns = 53;
  CHECK_CUDA(cudaMallocManaged(&matrix->cells, 37 * 53 * sizeof(float)));  // the result is written into managed memory
  for (int i = 0; i < 37 * 53; ++i) matrix->cells[i] = static_cast<float>(i);
  Scale<<<16, 128>>>(matrix, 3);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 37 * 53; ++i) EXPECT_EQ(matrix->cells[i], 3.0f * static_cast<float>(i));
  CHECK_CUDA(cudaFree(matrix->cells));
  CHECK_CUDA(cudaFree(matrix));
}

static void SeveralThreads() {
  const int n = 1 << 20, threads = 4;
  int* values = Managed<int>(n);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([=] {
        for (int i = t; i < n; i += threads) values[i] = round == 0 ? i : values[i] + 1;
      });
    }
    for (std::thread& worker : workers) worker.join();
    Increment<<<n / 256, 256>>>(values, n);
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], i + 5);
  CHECK_CUDA(cudaFree(values));
}

static void StreamsWithAttachedMemory() {
  const int n = 50000, threads = 3;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([=] {
      cudaStream_t stream;
      CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      int* values = nullptr;
      CHECK_CUDA(cudaMallocManaged(&values, n * sizeof(int), cudaMemAttachHost));
      CHECK_CUDA(cudaStreamAttachMemAsync(stream, values, 0, cudaMemAttachSingle));
      CHECK_CUDA(cudaStreamSynchronize(stream));
      for (int i = 0; i < n; ++i) values[i] = i * (t + 1);
      for (int round = 0; round < 10; ++round) {
        Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
        CHECK_CUDA(cudaStreamSynchronize(stream));
        values[round] += 100;
      }
      for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], i * (t + 1) + 10 + (i < 10 ? 100 : 0));
      CHECK_CUDA(cudaFree(values));
      CHECK_CUDA(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& worker : workers) worker.join();
  // What the program wrote reaches the work of every stream, whichever comes first.
  const int streams = 4;
  int* values = Managed<int>(streams * n);
  for (int i = 0; i < streams * n; ++i) values[i] = i;
  cudaStream_t stream[streams];
  for (int s = 0; s < streams; ++s) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    Increment<<<(n + 255) / 256, 256, 0, stream[s]>>>(values + s * n, n);
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < streams * n; ++i) EXPECT_EQ(values[i], i + 1);
  for (cudaStream_t s : stream) CHECK_CUDA(cudaStreamDestroy(s));
  CHECK_CUDA(cudaFree(values));
}

static std::atomic<bool> gate_open{false};

// Memory is attached behind work that waits for this program: the call returns, and a touch waits for that work, whichever
// stream the memory belongs to by then; on a device where program and kernels may touch memory at once nothing waits.
static void AttachBehindWaitingWork() {
  const int n = 20000;
  int at_once = 0;
  CHECK_CUDA(cudaDeviceGetAttribute(&at_once, cudaDevAttrConcurrentManagedAccess, 0));
  int* values = Managed<int>(n);
  for (int i = 0; i < n; ++i) values[i] = i;
  cudaStream_t first, second;
  CHECK_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  const cudaHostFn_t wait = [](void*) {
    while (!gate_open) std::this_thread::yield();
  };
  CHECK_CUDA(cudaLaunchHostFunc(first, wait, nullptr));
  Increment<<<(n + 255) / 256, 256, 0, first>>>(values, n);
  for (unsigned flags : {cudaMemAttachGlobal, cudaMemAttachHost, cudaMemAttachSingle}) {
    CHECK_CUDA(cudaStreamAttachMemAsync(second, values, 0, flags));
  }
  std::atomic<bool> touching{false};
  std::thread reader([&] {
    touching = true;
    if (at_once != 0) CHECK_CUDA(cudaStreamSynchronize(first));
    for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], i + 1);
  });
  while (!touching) std::this_thread::yield();
  gate_open = true;
  reader.join();
  CHECK_CUDA(cudaStreamDestroy(first));
  CHECK_CUDA(cudaStreamDestroy(second));
  CHECK_CUDA(cudaFree(values));
}

static void Hints() {
  const int n = 400000;
  int* values = Managed<int>(n);
  cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CHECK_CUDA(cudaMemAdvise(values, n * sizeof(int), cudaMemAdviseSetPreferredLocation, device));
  CHECK_CUDA(cudaMemAdvise(values, n * sizeof(int), cudaMemAdviseSetAccessedBy, host));
  CHECK_CUDA(cudaMemAdvise(values, 4096, cudaMemAdviseSetReadMostly, device));
  for (int i = 0; i < n; ++i) values[i] = i;
  CHECK_CUDA(cudaMemPrefetchAsync(values, n * sizeof(int), device, 0, nullptr));
  Increment<<<(n + 255) / 256, 256>>>(values, n);
  CHECK_CUDA(cudaMemPrefetchAsync(values, n * sizeof(int), host, 0, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], i + 1);
  int mostly = -1, preferred = -5, accessed[2] = {-7, -7};
  CHECK_CUDA(cudaMemRangeGetAttribute(&mostly, sizeof(mostly), cudaMemRangeAttributeReadMostly, values, 4096));
  EXPECT_EQ(mostly, 1);
  CHECK_CUDA(cudaMemRangeGetAttribute(&mostly, sizeof(mostly), cudaMemRangeAttributeReadMostly, values, n * sizeof(int)));
  EXPECT_EQ(mostly, 0);
  CHECK_CUDA(cudaMemRangeGetAttribute(&preferred, sizeof(preferred), cudaMemRangeAttributePreferredLocation, values, 4096));
  EXPECT_EQ(preferred, 0);
  CHECK_CUDA(cudaMemRangeGetAttribute(accessed, sizeof(accessed), cudaMemRangeAttributeAccessedBy, values, 4096));
  EXPECT_EQ(accessed[0], cudaCpuDeviceId);
  EXPECT_EQ(accessed[1], cudaInvalidDeviceId);
  cudaPointerAttributes attributes;
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, values + 5));
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes.hostPointer == values + 5 && attributes.devicePointer == values + 5, true);
  CHECK_CUDA(cudaFree(values));
}

static void Copies() {
  const int n = 200000;
  const size_t bytes = n * sizeof(int);
  int* from = Managed<int>(n);
  int* to = Managed<int>(n);
  int* device = nullptr;
  CHECK_CUDA(cudaMalloc(&device, bytes));
  std::vector<int> host(n);
  for (int i = 0; i < n; ++i) from[i] = i;
  CHECK_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], i);
  for (int i = 0; i < n; ++i) from[i] = 2 * i;
  CHECK_CUDA(cudaMemcpy(device, from, bytes, cudaMemcpyHostToDevice));  // as host memory
  Increment<<<(n + 255) / 256, 256>>>(device, n);
  CHECK_CUDA(cudaMemcpy(to, device, bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], 2 * i + 1);
  for (int i = 0; i < n; ++i) host[i] = 3 * i;
  CHECK_CUDA(cudaMemcpy(from, host.data(), bytes, cudaMemcpyHostToDevice));
  from[3] = 1;
  CHECK_CUDA(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(host[3], 1);
  EXPECT_EQ(host[n - 1], 3 * (n - 1));
  // A set of a part leaves the rest of its pages.
  for (int i = 0; i < n; ++i) to[i] = i;
  CHECK_CUDA(cudaMemset(to + 10, 0xff, 1000 * sizeof(int)));
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], i >= 10 && i < 1010 ? -1 : i);
  CHECK_CUDA(cudaMemcpy2D(to, 400, from, 800, 400, 100, cudaMemcpyDefault));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(to[100 * i + 7], from[200 * i + 7]);
  // Both ends in one block, one page.
  for (int i = 0; i < 100; ++i) to[i] = i;
  CHECK_CUDA(cudaMemcpy(to + 200, to, 100 * sizeof(int), cudaMemcpyDefault));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(to[200 + i], i);
  CHECK_CUDA(cudaFree(device));
  CHECK_CUDA(cudaFree(from));
  CHECK_CUDA(cudaFree(to));
}

static void Graph() {
  const int n = 10000;
  int* values = Managed<int>(n);
  for (int i = 0; i < n; ++i) values[i] = 0;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  // Work of default and captured streams before, and a touch while one is captured.
  Increment<<<(n + 255) / 256, 256>>>(values, n);
  Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], 2);
  for (int i = 0; i < n; ++i) values[i] = 0;
  Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
  Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < n; ++i) values[i] += i;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], 3 * i + 6);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  // Nodes that name it as host memory.
  int* copy = Managed<int>(n);
  int* device = nullptr;
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
  cudaGraphNode_t up, down;
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  CHECK_CUDA(cudaGraphAddMemcpyNode1D(&up, graph, nullptr, 0, device, values, n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaGraphAddMemcpyNode1D(&down, graph, &up, 1, copy, device, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < n; ++i) values[i] = i * round;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(copy[i], i * round);
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(device));
  CHECK_CUDA(cudaFree(copy));
  CHECK_CUDA(cudaFree(values));
}

static void HostFunction() {
  const int n = 10000;
  static int* values;
  values = Managed<int>(n);
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  for (int i = 0; i < n; ++i) values[i] = i;
  Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
  CHECK_CUDA(cudaLaunchHostFunc(
      stream,
      [](void*) {
        for (int i = 0; i < n; ++i) values[i] *= 2;
      },
      nullptr));
  Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], 2 * (i + 1) + 1);
  // The program touches it at the same time: it waits for the stream, and the stream for the host function.
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < n; ++i) values[i] = i;
    Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
    CHECK_CUDA(cudaLaunchHostFunc(
        stream,
        [](void*) {
          for (int i = 0; i < n; ++i) values[i] *= 2;
        },
        nullptr));
    Increment<<<(n + 255) / 256, 256, 0, stream>>>(values, n);
    (void)*static_cast<volatile int*>(values + 5);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], 2 * (i + 1) + 1);
  }
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(values));
}

// One thread gives a stream work for its block all the time, another touches a block of its own.
static void BlocksOfTwoThreads() {
  const int n = 20000;
  int* worked = Managed<int>(n);
  int* touched = Managed<int>(n);
  for (int i = 0; i < n; ++i) worked[i] = i;
  std::thread worker([=] {
    cudaStream_t stream;
    int* device = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
    for (int round = 1; round <= 200; ++round) {
      Increment<<<(n + 255) / 256, 256, 0, stream>>>(worked, n);
      CHECK_CUDA(cudaMemcpyAsync(device, worked, n * sizeof(int), cudaMemcpyDefault, stream));
      CHECK_CUDA(cudaMemcpyAsync(worked, device, n * sizeof(int), cudaMemcpyDefault, stream));
      if (round % 20 != 0) continue;
      CHECK_CUDA(cudaStreamSynchronize(stream));
      for (int i = 0; i < n; i += 999) EXPECT_EQ(worked[i], i + round);
    }
    CHECK_CUDA(cudaFree(device));
    CHECK_CUDA(cudaStreamDestroy(stream));
  });
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < n; ++i) touched[i] = i + round;
    for (int i = 0; i < n; ++i) EXPECT_EQ(touched[i], i + round);
  }
  worker.join();
  for (int i = 0; i < n; ++i) EXPECT_EQ(worked[i], i + 200);
  CHECK_CUDA(cudaFree(worked));
  CHECK_CUDA(cudaFree(touched));
}

static void FreeDuringUse() {
  const int n = 1 << 18;
  for (int round = 0; round < 5; ++round) {
    int* values = Managed<int>(n);
    for (int i = 0; i < n; ++i) values[i] = i;
    for (int k = 0; k < 5; ++k) Increment<<<n / 256, 256>>>(values, n);
    CHECK_CUDA(cudaFree(values));
  }
}

static void Variables() {
  EXPECT_EQ(counter, 7);
  counter = 20;
  for (int i = 0; i < 1000; ++i) table[i] = static_cast<float>(i);
  Node* nodes = Managed<Node>(2);
  nodes[0] = Node{1, &nodes[1]};
  nodes[1] = Node{2, nullptr};
  chain = nodes;
  for (int round = 0; round < 2; ++round) {
    UseVariables<<<1, 1>>>();
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  EXPECT_EQ(counter, 26);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(table[i], 7.0f * static_cast<float>(i));
  EXPECT_EQ(nodes[1].value, 200);
  int read = 0;
  CHECK_CUDA(cudaMemcpyFromSymbol(&read, counter, sizeof(read)));
  EXPECT_EQ(read, 26);
  CHECK_CUDA(cudaFree(nodes));
}

static void Errors() {
  int* memory = nullptr;
  EXPECT_EQ(cudaMallocManaged(&memory, 100, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMallocManaged(&memory, 100, cudaMemAttachSingle), cudaErrorInvalidValue);
  CHECK_CUDA(cudaMalloc(&memory, 4096));
  int value = 0;
  EXPECT_EQ(cudaMemRangeGetAttribute(&value, sizeof(value), cudaMemRangeAttributeReadMostly, memory, 4096),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamAttachMemAsync(nullptr, memory, 0, cudaMemAttachGlobal), cudaErrorInvalidValue);
  CHECK_CUDA(cudaFree(memory));
  memory = Managed<int>(10);
  EXPECT_EQ(cudaStreamAttachMemAsync(nullptr, memory, 0, cudaMemAttachSingle), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory + 1), cudaErrorInvalidValue);
  CHECK_CUDA(cudaFree(memory));
  cudaGetLastError();
}

int main() {
  Variables();
  VectorAdd();
  LinkedList();
  NestedPointers();
  SeveralThreads();
  StreamsWithAttachedMemory();
  AttachBehindWaitingWork();
  Hints();
  Copies();
  Graph();
  HostFunction();
  BlocksOfTwoThreads();
  FreeDuringUse();
  Errors();
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("ok\n");
}
