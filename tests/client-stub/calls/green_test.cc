// Green contexts, device resources, and events of whole contexts, with both ends in one process, on the emulator.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 out, .param .u32 value) {
  .reg .u64 %rd<2>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

class GreenTest : public testing::Test {
 protected:
  void SetUp() override {
    primary_ = Ends().context();
    ASSERT_EQ(cuCtxSetCurrent(primary_), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceGetDevResource(0, &all_, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  }
  // A green context of about half of the device.
  CUgreenCtx Make() {
    std::vector<CUdevResource> parts(2);
    CUdevResource rest{};
    unsigned count = 2;
    EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &count, &all_, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING,
                                          all_.sm.smCount / 2),
              CUDA_SUCCESS);
    part_ = parts[0];
    CUdevResourceDesc descriptor = nullptr;
    EXPECT_EQ(cuDevResourceGenerateDesc(&descriptor, parts.data(), 1), CUDA_SUCCESS);
    CUgreenCtx green = nullptr;
    EXPECT_EQ(cuGreenCtxCreate(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    return green;
  }
  CUcontext ContextOf(CUgreenCtx green) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
    return context;
  }

  CUcontext primary_ = nullptr;
  CUdevResource all_{}, part_{};
};

TEST_F(GreenTest, ResourcesAreSplitAndChecked) {
  EXPECT_EQ(all_.type, CU_DEV_RESOURCE_TYPE_SM);
  int multiprocessors = 0;
  cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
  EXPECT_EQ(all_.sm.smCount, static_cast<unsigned>(multiprocessors));
  CUdevResource other{};
  EXPECT_EQ(cuDeviceGetDevResource(0, nullptr, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetDevResource(99, &other, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetDevResource(0, &other, CU_DEV_RESOURCE_TYPE_INVALID), CUDA_ERROR_INVALID_RESOURCE_TYPE);
  EXPECT_EQ(cuCtxGetDevResource(primary_, &other, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(other.sm.smCount, all_.sm.smCount);
  EXPECT_EQ(cuCtxGetDevResource(nullptr, &other, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_CONTEXT);

  unsigned possible = 0;
  const unsigned quarter = all_.sm.smCount / 4;
  EXPECT_EQ(
      cuDevSmResourceSplitByCount(nullptr, &possible, &all_, nullptr, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, quarter),
      CUDA_SUCCESS);
  EXPECT_GE(possible, 3u);
  std::vector<CUdevResource> parts(possible + 4);
  CUdevResource rest{};
  unsigned made = 2;
  ASSERT_EQ(
      cuDevSmResourceSplitByCount(parts.data(), &made, &all_, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, quarter),
      CUDA_SUCCESS);
  EXPECT_EQ(made, 2u);
  EXPECT_GE(parts[0].sm.smCount, quarter);
  EXPECT_EQ(parts[0].sm.smCount, parts[1].sm.smCount);
  EXPECT_EQ(2 * parts[0].sm.smCount + rest.sm.smCount, all_.sm.smCount);
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), nullptr, &all_, &rest, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &made, nullptr, &rest, 0, 0), CUDA_ERROR_INVALID_VALUE);
  made = 1;
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &made, &all_, &rest, 0, 100000), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &made, &all_, &rest, 3, 8), CUDA_ERROR_INVALID_VALUE);
  CUdevResource edited = all_;
  edited.sm.smCount /= 2;
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &made, &edited, &rest, 0, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  CUdevResource nothing{};
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &made, &nothing, &rest, 0, 8), CUDA_ERROR_INVALID_RESOURCE_TYPE);

  CUdevResourceDesc descriptor = nullptr;
  EXPECT_EQ(cuDevResourceGenerateDesc(nullptr, parts.data(), 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevResourceGenerateDesc(&descriptor, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  CUgreenCtx green = nullptr;
  EXPECT_EQ(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuDevResourceGenerateDesc(&descriptor, parts.data(), 2), CUDA_SUCCESS) << "two parts of one split";
  EXPECT_EQ(cuGreenCtxCreate(&green, descriptor, 0, 0), CUDA_ERROR_INVALID_VALUE) << "the flag is required";
  EXPECT_EQ(cuGreenCtxCreate(nullptr, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GreenTest, ItsContextIsAContextLikeAnyOther) {
  const CUgreenCtx green = Make();
  const CUcontext context = ContextOf(green);
  EXPECT_NE(context, primary_);
  EXPECT_EQ(ContextOf(green), context);
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, primary_) << "creation makes nothing current";
  unsigned long long id = 0, context_id = 0, primary_id = 0;
  EXPECT_EQ(cuGreenCtxGetId(green, &id), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetId(context, &context_id), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetId(primary_, &primary_id), CUDA_SUCCESS);
  EXPECT_EQ(id, context_id);
  EXPECT_NE(id, primary_id);
  EXPECT_EQ(cuGreenCtxGetId(nullptr, &id), CUDA_ERROR_INVALID_CONTEXT) << "the primary context is current";
  ASSERT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxGetId(nullptr, &id), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  CUdevResource resource{};
  EXPECT_EQ(cuGreenCtxGetDevResource(green, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(resource.sm.smCount, part_.sm.smCount);
  EXPECT_EQ(cuCtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(resource.sm.smCount, part_.sm.smCount);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);

  // Memory, modules and events belong to the primary context and outlive the green one.
  CUdeviceptr memory = 0;
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(cuMemAlloc(&memory, 4), CUDA_SUCCESS);
  CUcontext owner = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory), CUDA_SUCCESS);
  EXPECT_EQ(owner, primary_);
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&store, module, "store"), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  uint32_t value = 7;
  void* params[] = {&memory, &value};
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context);
  ASSERT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  uint32_t read = 0;
  EXPECT_EQ(cuMemcpyDtoH(&read, memory, 4), CUDA_SUCCESS);
  EXPECT_EQ(read, 7u);
  value = 8;
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(&read, memory, 4), CUDA_SUCCESS);
  EXPECT_EQ(read, 8u);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxGetId(green, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxDestroy(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS) << "it can be current, and not be used";
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(GreenTest, StreamsKnowTheirGreenContext) {
  const CUgreenCtx green = Make();
  const CUcontext context = ContextOf(green);
  CUstream stream = nullptr, ordinary = nullptr;
  EXPECT_EQ(cuGreenCtxStreamCreate(nullptr, green, CU_STREAM_NON_BLOCKING, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, -100), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&ordinary, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUgreenCtx found = nullptr;
  CUcontext owner = nullptr;
  EXPECT_EQ(cuStreamGetGreenCtx(stream, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, green);
  EXPECT_EQ(cuStreamGetCtx_v2(stream, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamGetCtx_v2(stream, nullptr, &found), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetCtx_v2(stream, &owner, &found), CUDA_SUCCESS);
  EXPECT_EQ(owner, primary_);
  EXPECT_EQ(found, green);
  EXPECT_EQ(cuStreamGetGreenCtx(ordinary, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(cuStreamGetCtx_v2(ordinary, &owner, &found), CUDA_SUCCESS);
  EXPECT_EQ(owner, primary_);
  EXPECT_EQ(found, nullptr);
  int priority = 0, least = 0, greatest = 0;
  cuCtxGetStreamPriorityRange(&least, &greatest);
  EXPECT_EQ(cuStreamGetPriority(stream, &priority), CUDA_SUCCESS);
  EXPECT_EQ(priority, greatest);
  EXPECT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetGreenCtx(nullptr, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, green) << "the legacy stream is that of the current context";
  EXPECT_EQ(cuStreamGetGreenCtx(CU_STREAM_PER_THREAD, &found), CUDA_ERROR_INVALID_HANDLE);
  CUstream made = nullptr;
  unsigned flags = 0;
  ASSERT_EQ(cuStreamCreate(&made, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetFlags(made, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING}) << "all streams of a green context are";
  EXPECT_EQ(cuStreamDestroy(made), CUDA_SUCCESS);
  CUcontext popped = nullptr;
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  // Waiting for the primary context waits for its green ones.
  Gate gate(stream);
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    cuCtxSetCurrent(primary_);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    waited = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(waited);
  gate.Open();
  waiter.join();
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(ordinary), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenTest, AnEventCapturesAllWorkOfItsContext) {
  const CUgreenCtx green = Make();
  CUstream inside = nullptr, outside = nullptr;
  CUevent green_event = nullptr, event = nullptr;
  ASSERT_EQ(cuGreenCtxStreamCreate(&inside, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&outside, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&green_event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxRecordEvent(green, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxRecordEvent(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxRecordEvent(primary_, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxWaitEvent(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
  {
    Gate gate(outside);
    EXPECT_EQ(cuGreenCtxRecordEvent(green, green_event), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxRecordEvent(primary_, event), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(green_event), CUDA_SUCCESS) << "nothing runs in the green context";
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    gate.Open();
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  }
  {
    Gate gate(inside);
    EXPECT_EQ(cuGreenCtxRecordEvent(green, green_event), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxRecordEvent(primary_, event), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(green_event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY) << "the primary context's work includes its green contexts'";
    gate.Open();
    EXPECT_EQ(cuEventSynchronize(green_event), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  }
  {  // A context that waits holds back what follows in all its streams.
    Gate gate(outside);
    EXPECT_EQ(cuEventRecord(event, outside), CUDA_SUCCESS);
    EXPECT_EQ(cuGreenCtxWaitEvent(green, event), CUDA_SUCCESS);
    std::atomic<bool> ran{false};
    EXPECT_EQ(cuLaunchHostFunc(
                  inside, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &ran),
              CUDA_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(ran);
    gate.Open();
    EXPECT_EQ(cuStreamSynchronize(inside), CUDA_SUCCESS);
    EXPECT_TRUE(ran);
  }
  // Not while a stream of the context captures.
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(outside, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxRecordEvent(green, green_event), CUDA_SUCCESS) << "the capture is not in the green context";
  EXPECT_EQ(cuCtxRecordEvent(primary_, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(outside, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuStreamBeginCapture(outside, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxWaitEvent(primary_, green_event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(outside, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuEventDestroy(green_event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(inside), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(outside), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenTest, CooperativeLaunchesFitItsMultiprocessors) {
  const CUgreenCtx green = Make();
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&store, module, "store"), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&memory, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  int blocks = 0;
  ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 32, 0), CUDA_SUCCESS);
  uint32_t value = 1;
  void* params[] = {&memory, &value};
  const auto fits = static_cast<unsigned>(blocks) * part_.sm.smCount;
  EXPECT_EQ(cuLaunchCooperativeKernel(store, fits, 1, 1, 32, 1, 1, 0, stream, params), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchCooperativeKernel(store, fits + 1, 1, 1, 32, 1, 1, 0, stream, params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
