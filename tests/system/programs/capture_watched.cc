// An event that a thread polls, or waits for, is recorded again in a capture. What was asked before is answered by the record
// before, and the capture knows nothing of it.
//
// Source: CUDA driver API, cuEventRecord ("captures the contents of hStream at the time of this call"), cuStreamBeginCapture.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "ptx_program.h"

namespace {

constexpr const char* kWait = R"(.version 7.0
.target sm_50
.address_size 64
.visible .entry wait(.param .u64 flag) {
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [flag];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
})";

// The event of a kernel that waits for a flag is asked about, by `ask`, before a capture records it and after.
template <typename Ask>
void Run(CUfunction wait, Ask ask) {
  CUstream busy, captures;
  CUevent event;
  CUdeviceptr flag;
  CHECK_DRIVER(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuStreamCreate(&captures, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK_DRIVER(cuMemAlloc(&flag, sizeof(unsigned)));
  CHECK_DRIVER(cuMemsetD32(flag, 0, 1));
  // The other stream does not wait for it: memory that was freed may hold the 1 of the round before.
  CHECK_DRIVER(cuCtxSynchronize());
  void* arguments[] = {&flag};
  CHECK_DRIVER(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, busy, arguments, nullptr));
  CHECK_DRIVER(cuEventRecord(event, busy));
  ask(event, [&] {
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    CHECK_DRIVER(cuStreamBeginCapture(captures, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_DRIVER(cuMemsetD32Async(flag, 1, 1, captures));
    CHECK_DRIVER(cuEventRecord(event, captures));
    // Long enough for whoever would ask.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_DRIVER(cuStreamWaitEvent(captures, event, 0));
    CHECK_DRIVER(cuStreamEndCapture(captures, &graph));
    CHECK_DRIVER(cuGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 1u);
    CHECK_DRIVER(cuGraphInstantiate(&exec, graph, 0));
    CHECK_DRIVER(cuGraphLaunch(exec, captures));
    CHECK_DRIVER(cuStreamSynchronize(captures));
    CHECK_DRIVER(cuGraphExecDestroy(exec));
    CHECK_DRIVER(cuGraphDestroy(graph));
  });
  CHECK_DRIVER(cuStreamSynchronize(busy));
  // As any other event from here on.
  CHECK_DRIVER(cuEventRecord(event, busy));
  CHECK_DRIVER(cuEventSynchronize(event));
  CHECK_DRIVER(cuEventQuery(event));
  CHECK_DRIVER(cuEventDestroy(event));
  CHECK_DRIVER(cuStreamDestroy(captures));
  CHECK_DRIVER(cuStreamDestroy(busy));
  CHECK_DRIVER(cuMemFree(flag));
}

}  // namespace

int main() {
  const CUfunction wait = LoadKernel(kWait, "wait");
  CUcontext context;
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  for (int round = 0; round < 5; ++round) {
    Run(wait, [](CUevent event, auto capture) {
      EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
      capture();
    });
    Run(wait, [context](CUevent event, auto capture) {
      std::thread waiter([&] {
        CHECK_DRIVER(cuCtxSetCurrent(context));
        CHECK_DRIVER(cuEventSynchronize(event));
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      capture();
      waiter.join();
    });
  }
  std::printf("ok\n");
}
