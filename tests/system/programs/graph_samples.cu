// Graphs in the shapes of well-known sample programs: a reduction whose result lands in a variable on the stack, built by
// hand and captured from several streams; an iterative solver whose graph is updated for every step; user objects.
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "check.h"

constexpr int kCount = 1 << 14, kThreads = 256, kBlocks = 32;

__global__ void Reduce(const float* in, double* partial) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount; i += gridDim.x * blockDim.x) sum += in[i];
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = shared[0];
}

__global__ void Finish(const double* partial, double* result) {
  double sum = 0;
  for (int i = 0; i < kBlocks; ++i) sum += partial[i];
  *result = sum;
}

struct HostData {
  const double* result;
  double sum_of_results = 0;
  int calls = 0;
};

static void CUDART_CB Collect(void* pointer) {
  auto* data = static_cast<HostData*>(pointer);
  data->sum_of_results += *data->result;
  ++data->calls;
}

static void Check(cudaGraph_t graph, cudaStream_t stream, std::vector<float>* in, double* result, HostData* data) {
  cudaGraphExec_t exec, exec_of_clone;
  cudaGraph_t clone;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphClone(&clone, graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec_of_clone, clone, 0));
  double wanted = 0;
  for (int round = 0; round < 4; ++round) {
    for (cudaGraphExec_t each : {exec, exec_of_clone}) {
      double sum = 0;
      for (int i = 0; i < kCount; ++i) sum += (*in)[i] = static_cast<float>((i + round) % 7);
      wanted += sum;
      *result = -1;
      CHECK_CUDA(cudaGraphLaunch(each, stream));
      CHECK_CUDA(cudaStreamSynchronize(stream));
      EXPECT_EQ(*result, sum);
    }
  }
  EXPECT_EQ(data->sum_of_results, wanted);
  EXPECT_EQ(data->calls, 8);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphExecDestroy(exec_of_clone));
  CHECK_CUDA(cudaGraphDestroy(clone));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

static void ReductionByHand(cudaStream_t stream, std::vector<float>* in, float* device_in, double* partial, double* total) {
  double result = 0;
  HostData data{&result};
  cudaGraph_t graph;
  cudaGraphNode_t copy_in, clear, reduce, finish, copy_out, host;
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(in->data(), sizeof(float) * kCount, kCount, 1);
  copy.dstPtr = make_cudaPitchedPtr(device_in, sizeof(float) * kCount, kCount, 1);
  copy.extent = make_cudaExtent(sizeof(float) * kCount, 1, 1);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK_CUDA(cudaGraphAddMemcpyNode(&copy_in, graph, nullptr, 0, &copy));
  cudaMemsetParams set = {};
  set.dst = partial;
  set.elementSize = sizeof(float);
  set.width = kBlocks * 2;
  set.height = 1;
  CHECK_CUDA(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &set));
  const cudaGraphNode_t both[] = {copy_in, clear};
  void* reduce_arguments[] = {&device_in, &partial};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void*>(Reduce);
  kernel.gridDim = dim3(kBlocks);
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = reduce_arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&reduce, graph, both, 2, &kernel));
  void* finish_arguments[] = {&partial, &total};
  kernel.func = reinterpret_cast<void*>(Finish);
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = finish_arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&finish, graph, &reduce, 1, &kernel));
  copy = {};
  copy.srcPtr = make_cudaPitchedPtr(total, sizeof(double), 1, 1);
  copy.dstPtr = make_cudaPitchedPtr(&result, sizeof(double), 1, 1);
  copy.extent = make_cudaExtent(sizeof(double), 1, 1);
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK_CUDA(cudaGraphAddMemcpyNode(&copy_out, graph, &finish, 1, &copy));
  cudaHostNodeParams function = {};
  function.fn = Collect;
  function.userData = &data;
  CHECK_CUDA(cudaGraphAddHostNode(&host, graph, &copy_out, 1, &function));
  size_t nodes = 0;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, size_t{6});
  Check(graph, stream, in, &result, &data);
}

static void ReductionCaptured(cudaStream_t stream, std::vector<float>* in, float* device_in, double* partial, double* total) {
  double result = 0;
  HostData data{&result};
  cudaStream_t side;
  cudaEvent_t fork, join;
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamCreate(&side));
  CHECK_CUDA(cudaEventCreate(&fork));
  CHECK_CUDA(cudaEventCreate(&join));
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaEventRecord(fork, stream));
  CHECK_CUDA(cudaStreamWaitEvent(side, fork, 0));
  CHECK_CUDA(cudaMemcpyAsync(device_in, in->data(), sizeof(float) * kCount, cudaMemcpyDefault, stream));
  CHECK_CUDA(cudaMemsetAsync(partial, 0, sizeof(double) * kBlocks, side));
  CHECK_CUDA(cudaEventRecord(join, side));
  CHECK_CUDA(cudaStreamWaitEvent(stream, join, 0));
  Reduce<<<kBlocks, kThreads, 0, stream>>>(device_in, partial);
  Finish<<<1, 1, 0, stream>>>(partial, total);
  CHECK_CUDA(cudaMemcpyAsync(&result, total, sizeof(double), cudaMemcpyDefault, stream));
  CHECK_CUDA(cudaLaunchHostFunc(stream, Collect, &data));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  Check(graph, stream, in, &result, &data);
  CHECK_CUDA(cudaStreamDestroy(side));
}

// x_next = 0.5 x + 1 converges to 2; the buffers change places at every step, so every step updates the kernel's node.
__global__ void Relax(const float* x, float* next, double* difference) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  next[i] = 0.5f * x[i] + 1;
  if (i == 0) *difference = fabs(static_cast<double>(next[i]) - x[i]);
}

static void Solver(cudaStream_t stream, bool whole_graph, float* a, float* b, double* difference) {
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t relax = nullptr;
  double last = 1;
  int steps = 0;
  CHECK_CUDA(cudaMemset(a, 0, sizeof(float) * kThreads));
  while (last > 1e-3) {
    if (exec == nullptr || whole_graph) {
      cudaGraph_t graph;
      CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      Relax<<<1, kThreads, 0, stream>>>(a, b, difference);
      CHECK_CUDA(cudaMemcpyAsync(&last, difference, sizeof(double), cudaMemcpyDeviceToHost, stream));
      CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
      if (exec == nullptr) {
        CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
        size_t one = 1;
        CHECK_CUDA(cudaGraphGetRootNodes(graph, &relax, &one));
      } else {
        cudaGraphExecUpdateResultInfo info;
        CHECK_CUDA(cudaGraphExecUpdate(exec, graph, &info));
        EXPECT_EQ(static_cast<int>(info.result), static_cast<int>(cudaGraphExecUpdateSuccess));
      }
      if (whole_graph) CHECK_CUDA(cudaGraphDestroy(graph));
    } else {
      void* arguments[] = {&a, &b, &difference};
      cudaKernelNodeParams kernel = {};
      kernel.func = reinterpret_cast<void*>(Relax);
      kernel.gridDim = dim3(1);
      kernel.blockDim = dim3(kThreads);
      kernel.kernelParams = arguments;
      CHECK_CUDA(cudaGraphExecKernelNodeSetParams(exec, relax, &kernel));
    }
    last = -1;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(last, std::pow(0.5, steps));
    std::swap(a, b);
    ++steps;
  }
  EXPECT_EQ(steps, 11);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
}

static std::atomic<int> destroyed{0};

static void UserObjects(cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaUserObject_t object;
  auto* held = new int(3);
  CHECK_CUDA(cudaUserObjectCreate(
      &object, held,
      [](void* p) {
        destroyed += *static_cast<int*>(p);
        delete static_cast<int*>(p);
      },
      1, cudaUserObjectNoDestructorSync));
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  CHECK_CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  cudaGraphNode_t node;
  CHECK_CUDA(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(destroyed.load(), 0);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  for (int i = 0; i < 1000 && destroyed == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(destroyed.load(), 3);
}

int main() {
  cudaStream_t stream;
  std::vector<float> in(kCount);
  float *device_in, *buffers;
  double *partial, *total;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDA(cudaMalloc(&device_in, sizeof(float) * kCount));
  CHECK_CUDA(cudaMalloc(&buffers, sizeof(float) * kThreads * 2));
  CHECK_CUDA(cudaMalloc(&partial, sizeof(double) * kBlocks));
  CHECK_CUDA(cudaMalloc(&total, sizeof(double)));
  ReductionByHand(stream, &in, device_in, partial, total);
  ReductionCaptured(stream, &in, device_in, partial, total);
  Solver(stream, false, buffers, buffers + kThreads, total);
  Solver(stream, true, buffers, buffers + kThreads, total);
  UserObjects(stream);
  std::puts("ok");
  return 0;
}
