// A kernel that fails breaks its context: what every kind of call answers from then on, and that other threads see the same.
// usage: broken_context stream|event|context|copy: which call finds out
#include <cuda.h>

#include <cstring>
#include <thread>

#include "check.h"

__global__ void Traps() { __trap(); }
__global__ void Nothing() {}

static void Tell(const char* call, int code) { std::printf("%-32s %d\n", call, code); }
#define TELL(call) Tell(#call, static_cast<int>(call))

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "stream";
  CUstream stream, other;
  CUevent event, ready;
  CUdeviceptr memory, later;
  void* pinned;
  CUcontext context;
  size_t bytes, total;
  int value;
  CUdevice device;
  Nothing<<<1, 1>>>();
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK_DRIVER(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
  CHECK_DRIVER(cuEventRecord(ready, other));
  CHECK_DRIVER(cuMemAlloc(&memory, 4096));
  CHECK_DRIVER(cuMemHostAlloc(&pinned, 4096, 0));
  CUgraph graph, fresh_graph;
  CUgraphExec exec;
  CHECK_DRIVER(cuGraphCreate(&graph, 0));
  CHECK_DRIVER(cuGraphInstantiate(&exec, graph, 0));
  CHECK_DRIVER(cuCtxSynchronize());
  Traps<<<1, 1, 0, stream>>>();
  CHECK_DRIVER(cuEventRecord(event, stream));
  if (std::strcmp(how, "stream") == 0) TELL(cuStreamSynchronize(stream));
  if (std::strcmp(how, "event") == 0) TELL(cuEventSynchronize(event));
  if (std::strcmp(how, "context") == 0) TELL(cuCtxSynchronize());
  if (std::strcmp(how, "copy") == 0) TELL(cuMemcpyDtoHAsync(&value, memory, 4, stream));
  CUstream fresh_stream;
  CUevent fresh_event;
  TELL(cuEventCreate(&fresh_event, CU_EVENT_DISABLE_TIMING));
  TELL(cuStreamCreate(&fresh_stream, CU_STREAM_NON_BLOCKING));
  TELL(cuMemAlloc(&later, 4096));
  TELL(cuMemHostAlloc(&pinned, 4096, 0));
  TELL(cuMemcpyHtoD(memory, &value, 4));
  TELL(cuMemcpyDtoHAsync(pinned, memory, 4, stream));
  TELL(cuMemsetD8(memory, 0, 4));
  TELL(cuStreamQuery(other));
  TELL(cuStreamSynchronize(other));
  TELL(cuEventQuery(ready));
  TELL(cuEventQuery(event));
  TELL(cuEventRecord(ready, other));
  TELL(cuStreamWaitEvent(other, ready, 0));
  TELL(cuCtxSynchronize());
  TELL(cuCtxGetCurrent(&context));
  TELL(cuCtxGetDevice(&device));
  TELL(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  TELL(cuMemGetInfo(&bytes, &total));
  TELL(cuEventDestroy(ready));
  TELL(cuStreamDestroy(other));
  TELL(cuMemFree(memory));
  TELL(cuGraphExecDestroy(exec));
  TELL(cuGraphDestroy(graph));
  TELL(cuGraphCreate(&fresh_graph, 0));
  TELL(cudaGetLastError());
  TELL(cudaPeekAtLastError());
  TELL(cudaDeviceSynchronize());
  std::thread([] { TELL(cudaDeviceSynchronize()); }).join();
  Nothing<<<1, 1>>>();
  TELL(cudaGetLastError());
  TELL(cudaDeviceReset());
  std::puts("ok");
  return 0;
}
