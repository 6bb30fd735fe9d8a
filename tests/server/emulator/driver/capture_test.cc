#include <thread>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

class CaptureTest : public DriverTest {
 protected:
  void Begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_CU(cu(StreamBeginCapture_v2)(stream, mode));
  }
  size_t NodeCount(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(cu(GraphGetNodes)(graph, nullptr, &count));
    return count;
  }
  void LaunchGraph(CUgraph graph, CUstream stream, int times) {
    CUgraphExec exec = nullptr;
    ASSERT_CU(cu(GraphInstantiateWithFlags)(&exec, graph, 0));
    for (int i = 0; i < times; ++i) EXPECT_CU(cu(GraphLaunch)(exec, stream));
    EXPECT_CU(cu(StreamSynchronize)(stream));
    EXPECT_CU(cu(GraphExecDestroy)(exec));
    EXPECT_CU(cu(GraphDestroy)(graph));
  }
};

TEST_F(CaptureTest, CapturedWorkRunsAtLaunchOnly) {
  const CUstream stream = Stream();
  const CUdeviceptr memory = Allocate(4);
  Write(memory, {0});
  EXPECT_CU(cu(CtxSynchronize)());
  Function("add_one");
  Begin(stream);
  EXPECT_CU(Launch("add_one", 1, 32, stream, memory, 1));
  EXPECT_CU(Launch("add_one", 1, 32, stream, memory, 1));
  CUstreamCaptureStatus status;
  EXPECT_CU(cu(StreamIsCapturing)(stream, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
  CUgraph graph = nullptr;
  EXPECT_CU(cu(StreamEndCapture)(stream, &graph));
  EXPECT_EQ(0, ReadOne(memory));
  EXPECT_EQ(2u, NodeCount(graph));
  LaunchGraph(graph, stream, 3);
  EXPECT_EQ(6, ReadOne(memory));
}

TEST_F(CaptureTest, EventsBringOtherStreamsIn) {
  const CUstream main = Stream(), side = Stream();
  const CUevent fork = Event(CU_EVENT_DISABLE_TIMING), join = Event(CU_EVENT_DISABLE_TIMING);
  const CUdeviceptr memory = Allocate(12);
  Begin(main);
  EXPECT_CU(cu(MemsetD32Async)(memory, 5, 1, main));
  EXPECT_CU(cu(EventRecord)(fork, main));
  EXPECT_CU(cu(StreamWaitEvent)(side, fork, 0));
  EXPECT_CU(cu(MemcpyDtoDAsync_v2)(memory + 4, memory, 4, side));
  EXPECT_CU(cu(MemsetD32Async)(memory + 8, 6, 1, main));
  EXPECT_CU(cu(EventRecord)(join, side));
  EXPECT_CU(cu(StreamWaitEvent)(main, join, 0));
  CUgraph graph = nullptr;
  EXPECT_CU(cu(StreamEndCapture)(main, &graph));
  EXPECT_EQ(3u, NodeCount(graph));
  size_t edges = 0;
  EXPECT_CU(cu(GraphGetEdges)(graph, nullptr, nullptr, &edges));
  EXPECT_EQ(2u, edges);
  LaunchGraph(graph, main, 1);
  EXPECT_EQ((std::vector<int>{5, 5, 6}), Read(memory, 3));
}

TEST_F(CaptureTest, UnjoinedWorkEndsWithAnError) {
  const CUstream main = Stream(), side = Stream();
  const CUevent fork = Event(CU_EVENT_DISABLE_TIMING);
  const CUdeviceptr memory = Allocate(4);
  Begin(main);
  EXPECT_CU(cu(EventRecord)(fork, main));
  EXPECT_CU(cu(StreamWaitEvent)(side, fork, 0));
  EXPECT_CU(cu(MemsetD32Async)(memory, 5, 1, side));
  CUgraph graph = nullptr;
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu(StreamEndCapture)(main, &graph));
  EXPECT_EQ(nullptr, graph);
}

TEST_F(CaptureTest, WaitingInvalidates) {
  const CUstream stream = Stream();
  Begin(stream);
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu(StreamSynchronize)(stream));
  CUstreamCaptureStatus status;
  EXPECT_CU(cu(StreamIsCapturing)(stream, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status);
  const CUdeviceptr any = 0;
  CUgraph graph = nullptr;
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, &graph));
  EXPECT_EQ(0u, any);
}

TEST_F(CaptureTest, UnsafeCallsDependOnTheMode) {
  const CUstream stream = Stream();
  CUgraph graph = nullptr;
  CUdeviceptr memory = 0;
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cu(MemAlloc_v2)(&memory, 16));
  EXPECT_CU(cu(StreamEndCapture)(stream, &graph));
  EXPECT_CU(cu(GraphDestroy)(graph));
  Begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    EXPECT_CU(cu(CtxSetCurrent)(context_));
    CUdeviceptr other = 0;
    EXPECT_CU(cu(MemAlloc_v2)(&other, 16));
  }).join();
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu(MemAlloc_v2)(&memory, 16));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, &graph));
  Begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    EXPECT_CU(cu(CtxSetCurrent)(context_));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_CU(cu(ThreadExchangeStreamCaptureMode)(&mode));
    EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
    CUdeviceptr other = 0;
    EXPECT_CU(cu(MemAlloc_v2)(&other, 16));
    EXPECT_CU(cu(ThreadExchangeStreamCaptureMode)(&mode));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu(MemAlloc_v2)(&other, 16));
  }).join();
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, &graph));
}

TEST_F(CaptureTest, LegacyStreamMustNotDependOnACapture) {
  const CUstream stream = Stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = Allocate(4);
  CUgraph graph = nullptr;
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu(MemsetD32Async)(memory, 1, 1, nullptr));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, &graph));
  const CUstream free_stream = Stream(CU_STREAM_NON_BLOCKING);
  Begin(free_stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cu(MemsetD32Async)(memory, 1, 1, nullptr));
  EXPECT_CU(cu(StreamEndCapture)(free_stream, &graph));
  EXPECT_CU(cu(GraphDestroy)(graph));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu(StreamBeginCapture_v2)(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
}

TEST_F(CaptureTest, EventsOfACaptureCannotBeAsked) {
  const CUstream stream = Stream();
  const CUevent event = Event();
  CUgraph graph = nullptr;
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cu(EventRecord)(event, stream));
  EXPECT_EQ(CUDA_ERROR_CAPTURED_EVENT, cu(EventQuery)(event));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, &graph));
}

TEST_F(CaptureTest, EventOfAnEndedCaptureIsNoEvent) {
  const CUstream stream = Stream();
  const CUevent event = Event();
  CUgraph graph = nullptr;
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cu(EventRecord)(event, stream));
  EXPECT_CU(cu(StreamEndCapture)(stream, &graph));
  EXPECT_CU(cu(GraphDestroy)(graph));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(EventQuery)(event));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(StreamWaitEvent)(stream, event, 0));
  EXPECT_CU(cu(EventRecord)(event, stream));
  EXPECT_CU(cu(EventSynchronize)(event));
}

TEST_F(CaptureTest, FailedLaunchInvalidatesFailedCopyDoesNot) {
  const CUstream stream = Stream();
  CUgraph graph = nullptr;
  int value = 0;
  Function("store");
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemcpyHtoDAsync_v2)(16, &value, 4, stream));
  EXPECT_CU(cu(StreamEndCapture)(stream, &graph));
  EXPECT_CU(cu(GraphDestroy)(graph));
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, Launch("store", 1, 2000, stream, CUdeviceptr{0}, 1));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, nullptr));
}

TEST_F(CaptureTest, EventsFromOutsideAreIsolated) {
  const CUstream stream = Stream(), other = Stream();
  const CUevent event = Event();
  EXPECT_CU(cu(EventRecord)(event, other));
  CUgraph graph = nullptr;
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu(StreamWaitEvent)(stream, event, 0));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(stream, &graph));
}

TEST_F(CaptureTest, TwoCapturesDoNotMerge) {
  const CUstream first = Stream(), second = Stream();
  const CUevent event = Event();
  CUgraph graph = nullptr;
  Begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
  Begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cu(StreamBeginCapture_v2)(second, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cu(EventRecord)(event, first));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_MERGE, cu(StreamWaitEvent)(second, event, 0));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(first, &graph));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(second, &graph));
}

TEST_F(CaptureTest, EndNeedsTheRightStreamAndThread) {
  const CUstream main = Stream(), side = Stream();
  const CUevent fork = Event();
  CUgraph graph = nullptr;
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cu(StreamEndCapture)(main, &graph));
  Begin(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    EXPECT_CU(cu(CtxSetCurrent)(context_));
    CUgraph none = nullptr;
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cu(StreamEndCapture)(main, &none));
  }).join();
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE, cu(StreamEndCapture)(main, &graph));  // that ended it
  Begin(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_CU(cu(EventRecord)(fork, main));
  EXPECT_CU(cu(StreamWaitEvent)(side, fork, 0));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu(StreamEndCapture)(side, &graph));
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu(StreamEndCapture)(main, &graph));
}

TEST_F(CaptureTest, InfoNamesTheNodesToComeAfter) {
  const CUstream stream = Stream();
  const CUdeviceptr memory = Allocate(4);
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cu(MemsetD32Async)(memory, 1, 1, stream));
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph = nullptr, ended = nullptr;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  EXPECT_CU(cu(StreamGetCaptureInfo_v2)(stream, &status, &id, &graph, &nodes, &count));
  ASSERT_EQ(1u, count);
  CUgraphNodeType type;
  EXPECT_CU(cu(GraphNodeGetType)(nodes[0], &type));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_MEMSET, type);
  EXPECT_CU(cu(StreamUpdateCaptureDependencies)(stream, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  EXPECT_CU(cu(MemsetD32Async)(memory, 2, 1, stream));
  EXPECT_CU(cu(StreamGetCaptureInfo_v3)(stream, &status, &id, &graph, &nodes, nullptr, &count));
  EXPECT_EQ(1u, count);
  cu(StreamEndCapture)(stream, &ended);
  if (ended != nullptr) {
    EXPECT_CU(cu(GraphDestroy)(ended));
  }
}

}  // namespace
}  // namespace tessera
