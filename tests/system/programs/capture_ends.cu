// What takes part in a capture may end before it: streams that joined, once they were joined again, the events between them, a
// thread whose default stream took part. In every mode the graph is there and does what was captured; and what a program may do
// meanwhile leaves the capture alone.
#include <cuda_runtime.h>

#include <atomic>
#include <thread>

#include "check.h"

__global__ void add(int* to, int what) { atomicAdd(to, what); }

namespace {

int* sum;  // of the device

int Sum() {
  int value = 0;
  CHECK_CUDA(cudaMemcpy(&value, sum, sizeof(value), cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaMemset(sum, 0, sizeof(value)));
  CHECK_CUDA(cudaDeviceSynchronize());
  return value;
}

// Ends the capture of `stream` and runs its graph once: what it added.
int Run(cudaStream_t stream) {
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  return Sum();
}

cudaStream_t NewStream() {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

cudaEvent_t NewEvent() {
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

// `to` goes on behind what `from` was given.
void Follow(cudaStream_t to, cudaStream_t from) {
  const cudaEvent_t event = NewEvent();
  CHECK_CUDA(cudaEventRecord(event, from));
  CHECK_CUDA(cudaStreamWaitEvent(to, event, 0));
  CHECK_CUDA(cudaEventDestroy(event));
}

// Streams that joined are destroyed as soon as they were joined again; `busy`: they were given work before the capture, too.
void DestroysWhatJoined(cudaStreamCaptureMode mode, bool busy) {
  const cudaStream_t first = NewStream();
  cudaStream_t others[3];
  for (cudaStream_t& other : others) {
    other = NewStream();
    if (busy) add<<<1, 1, 0, other>>>(sum, 0);
  }
  CHECK_CUDA(cudaStreamBeginCapture(first, mode));
  add<<<1, 1, 0, first>>>(sum, 1);
  int what = 10;
  for (cudaStream_t other : others) {
    Follow(other, first);
    add<<<1, 1, 0, other>>>(sum, what);
    Follow(first, other);
    CHECK_CUDA(cudaStreamDestroy(other));
    what *= 10;
  }
  add<<<1, 1, 0, first>>>(sum, 2);
  EXPECT_EQ(Run(first), 1113);
  CHECK_CUDA(cudaStreamDestroy(first));
}

// A stream that took no part, and one that is made meanwhile, end during the capture as well.
void DestroysOthers(cudaStreamCaptureMode mode) {
  const cudaStream_t first = NewStream(), other = NewStream();
  add<<<1, 1, 0, other>>>(sum, 0);
  CHECK_CUDA(cudaStreamBeginCapture(first, mode));
  add<<<1, 1, 0, first>>>(sum, 1);
  CHECK_CUDA(cudaStreamDestroy(other));
  const cudaStream_t late = NewStream();
  add<<<1, 1, 0, late>>>(sum, 0);
  CHECK_CUDA(cudaStreamDestroy(late));
  EXPECT_EQ(Run(first), 1);
  CHECK_CUDA(cudaStreamDestroy(first));
}

// The stream on which the capture began ends: there is no graph, and who joined is free.
void DestroysTheOrigin(cudaStreamCaptureMode mode) {
  const cudaStream_t first = NewStream(), other = NewStream();
  CHECK_CUDA(cudaStreamBeginCapture(first, mode));
  Follow(other, first);
  CHECK_CUDA(cudaStreamDestroy(first));
  cudaStreamCaptureStatus status;
  CHECK_CUDA(cudaStreamIsCapturing(other, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  add<<<1, 1, 0, other>>>(sum, 7);
  CHECK_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(Sum(), 7);
  CHECK_CUDA(cudaStreamDestroy(other));
}

// The default stream of a thread takes part and is joined; then the thread ends.
void EndsAThread(cudaStreamCaptureMode mode) {
  const cudaStream_t first = NewStream();
  CHECK_CUDA(cudaStreamBeginCapture(first, mode));
  add<<<1, 1, 0, first>>>(sum, 1);
  std::thread([&] {
    Follow(cudaStreamPerThread, first);
    add<<<1, 1, 0, cudaStreamPerThread>>>(sum, 10);
    Follow(first, cudaStreamPerThread);
  }).join();
  // The end of the thread has been seen by now, or is soon: each of these is a call later.
  for (int i = 0; i < 100; ++i) add<<<1, 1, 0, first>>>(sum, 1);
  EXPECT_EQ(Run(first), 111);
  CHECK_CUDA(cudaStreamDestroy(first));
}

// The default stream is asked while it works, and a stream that is captured had work before: its capture goes on.
void AsksTheDefaultStream() {
  std::atomic<bool> go{false};
  const auto wait = [](void* flag) {
    while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
  };
  const cudaStream_t first = NewStream();
  add<<<1, 1, 0, first>>>(sum, 0);
  CHECK_CUDA(cudaLaunchHostFunc(cudaStreamLegacy, wait, &go));
  CHECK_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  add<<<1, 1, 0, first>>>(sum, 5);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  go = true;
  CHECK_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  EXPECT_EQ(Run(first), 5);
  CHECK_CUDA(cudaStreamDestroy(first));
}

}  // namespace

int main() {
  CHECK_CUDA(cudaMalloc(&sum, sizeof(int)));
  Sum();
  add<<<1, 1>>>(sum, 0);  // loads the kernel, which a capture of mode "global" may forbid
  CHECK_CUDA(cudaDeviceSynchronize());
  for (auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    DestroysWhatJoined(mode, false);
    DestroysWhatJoined(mode, true);
    DestroysOthers(mode);
    DestroysTheOrigin(mode);
    EndsAThread(mode);
  }
  AsksTheDefaultStream();
  std::printf("ok\n");
}
