// Times of launches, with a GPU whose clock and whose work are the test's.
#include "server/worker/gpu_times.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {
namespace {

constexpr int64_t kGpuAheadNs = 3'600'000'000'000;  // its clock is another one
constexpr double kNsPerMs = 1e6;

struct FakeGpu {
  std::map<CUevent, int64_t> passed_ns;  // of its clock; 0: not yet
  std::set<CUstream> streams, captured, busy;
  uint64_t made = 0x1000;
  int64_t late_ns = 0;  // how long after it was asked for it passes an event
} gpu;

const CUcontext kContext = reinterpret_cast<CUcontext>(0x10);
const CUstream kStream = reinterpret_cast<CUstream>(0x20);
const CUstream kOther = reinterpret_cast<CUstream>(0x30);

DriverTable Table() {
  DriverTable table{};
  table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  table.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = gpu.captured.contains(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  table.cuStreamGetCtx = [](CUstream, CUcontext* context) {
    *context = kContext;
    return CUDA_SUCCESS;
  };
  table.cuStreamCreate = [](CUstream* stream, unsigned) {
    gpu.streams.insert(*stream = reinterpret_cast<CUstream>(++gpu.made));
    return CUDA_SUCCESS;
  };
  table.cuStreamDestroy_v2 = [](CUstream stream) {
    gpu.streams.erase(stream);
    return CUDA_SUCCESS;
  };
  table.cuEventCreate = [](CUevent* event, unsigned) {
    gpu.passed_ns[*event = reinterpret_cast<CUevent>(++gpu.made)] = 0;
    return CUDA_SUCCESS;
  };
  table.cuEventDestroy_v2 = [](CUevent event) {
    gpu.passed_ns.erase(event);
    return CUDA_SUCCESS;
  };
  table.cuEventRecord = [](CUevent event, CUstream stream) {
    EXPECT_FALSE(gpu.captured.contains(stream));
    gpu.passed_ns[event] = gpu.busy.contains(stream) ? 0 : static_cast<int64_t>(MonotonicNs()) + gpu.late_ns + kGpuAheadNs;
    return CUDA_SUCCESS;
  };
  table.cuEventQuery = [](CUevent event) { return gpu.passed_ns.at(event) == 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
  table.cuEventElapsedTime = [](float* ms, CUevent begin, CUevent end) {
    if (gpu.passed_ns.at(begin) == 0 || gpu.passed_ns.at(end) == 0) return CUDA_ERROR_NOT_READY;
    *ms = static_cast<float>(static_cast<double>(gpu.passed_ns.at(end) - gpu.passed_ns.at(begin)) / kNsPerMs);
    return CUDA_SUCCESS;
  };
  return table;
}

class GpuTimesTest : public testing::Test {
 protected:
  GpuTimesTest() {
    gpu = FakeGpu();
    EXPECT_EQ(contexts_.Set(kContext), CUDA_SUCCESS);
  }
  // What the GPU takes for it passes between the two.
  void Launch(uint64_t sequence, const char* name, CUstream stream = kStream, CUresult result = CUDA_SUCCESS) {
    const GpuTimes::Launch launch = times_.Before(stream);
    gpu.late_ns += took_ns_;
    times_.After(launch, result, sequence, name, stream);
  }
  std::vector<TraceWork> All() { return times_.Read(0, 100); }

  const DriverTable table_ = Table();
  ThreadContexts contexts_{table_};
  GpuTimes times_{table_, contexts_};
  int64_t took_ns_ = 0;
};

TEST_F(GpuTimesTest, ALaunchHasItsTimesOfTheHost) {
  took_ns_ = 5'000'000;
  const uint64_t before_ns = MonotonicNs();
  Launch(7, "add");
  const std::vector<TraceWork> work = All();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].sequence, 7u);
  EXPECT_GE(work[0].begin_ns, before_ns);
  EXPECT_LE(work[0].begin_ns, MonotonicNs());
  EXPECT_NEAR(static_cast<double>(work[0].end_ns - work[0].begin_ns), 5e6, 1e6);
}

TEST_F(GpuTimesTest, NoneBeginsBeforeItWasAskedFor) {
  gpu.late_ns = 20'000'000;  // the anchor alone is late
  Launch(1, "first");
  gpu.late_ns = 0;
  const uint64_t before_ns = MonotonicNs();
  Launch(2, "second");
  const std::vector<TraceWork> work = All();
  ASSERT_EQ(work.size(), 2u);
  EXPECT_GE(work[1].begin_ns + 1000, before_ns);
  EXPECT_NEAR(static_cast<double>(work[0].begin_ns - work[1].begin_ns), 20e6, 5e6);
}

TEST_F(GpuTimesTest, NamesAndStreamsHaveNumbers) {
  const char* const add = "add";
  Launch(1, add);
  Launch(2, "mul", kOther);
  Launch(3, add, kOther);
  const std::vector<TraceWork> work = All();
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(std::vector({work[0].name, work[1].name, work[2].name}), std::vector<uint32_t>({0, 1, 0}));
  EXPECT_EQ(std::vector({work[0].stream, work[1].stream, work[2].stream}), std::vector<uint32_t>({0, 1, 1}));
  EXPECT_EQ(times_.Names(0, 100), std::vector<std::string_view>({"add", "mul"}));
  EXPECT_EQ(times_.Names(1, 100), std::vector<std::string_view>({"mul"}));
  EXPECT_EQ(times_.Names(0, 5), std::vector<std::string_view>({"add"}));
  EXPECT_EQ(times_.Read(1, 1).size(), 1u);
}

TEST_F(GpuTimesTest, ACapturedStreamIsLeftAlone) {
  gpu.captured.insert(kStream);
  Launch(1, "add");
  const std::vector<TraceWork> work = All();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].end_ns, 0u);
  EXPECT_EQ(gpu.passed_ns.size(), 0u);
}

TEST_F(GpuTimesTest, NobodyWaitsForWorkThatGoesOn) {
  gpu.busy.insert(kStream);
  Launch(1, "long");
  Launch(2, "short", kOther);
  const std::vector<TraceWork> work = All();
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].end_ns, 0u);
  EXPECT_NE(work[1].end_ns, 0u);
  for (auto& [event, passed_ns] : gpu.passed_ns) passed_ns = passed_ns == 0 ? MonotonicNs() + kGpuAheadNs : passed_ns;
  EXPECT_NE(All()[0].end_ns, 0u);
}

TEST_F(GpuTimesTest, ALaunchThatFailedIsNone) {
  Launch(1, "add", kStream, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(All().size(), 0u);
}

TEST_F(GpuTimesTest, EventsAreUsedAgain) {
  for (uint64_t i = 0; i < 1000; ++i) Launch(i, "add");
  EXPECT_LE(gpu.passed_ns.size(), 8u);
  EXPECT_EQ(times_.Read(0, 2000).size(), 1000u);
}

TEST_F(GpuTimesTest, WhatIsNotDoneIsBounded) {
  gpu.busy.insert(kStream);
  for (uint64_t i = 0; i < GpuTimes::kPendingMax + 100; ++i) Launch(i, "add");
  EXPECT_LE(gpu.passed_ns.size(), 2 * GpuTimes::kPendingMax + 1);
}

TEST_F(GpuTimesTest, AContextTakesItsEventsAlong) {
  Launch(1, "add");
  gpu.busy.insert(kOther);
  Launch(2, "add", kOther);
  times_.EndContext(kContext);
  EXPECT_EQ(gpu.passed_ns.size(), 0u);
  EXPECT_EQ(gpu.streams.size(), 0u);
  const std::vector<TraceWork> work = All();
  ASSERT_EQ(work.size(), 2u);
  EXPECT_NE(work[0].end_ns, 0u);
  EXPECT_EQ(work[1].end_ns, 0u);
}

}  // namespace
}  // namespace tessera
