// Every call whose record has the device touch the program's memory (`work` in protocol/spec), over a channel whose ends share no
// pages, with both ends in one process, on the emulator: what the program has written to a mirror is told before the record, the
// server hears behind it of work that may use mirrors, and memory that a record shows an address of gets a mirror.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/session/session.h"
#include "generated/messages/copy.h"
#include "generated/messages/event.h"
#include "generated/messages/launch.h"
#include "generated/messages/service.h"
#include "generated/messages/stream.h"
#include "protocol/base/mutex.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/device_work/device_work_rows.h"
#include "tests/support/wrapped_dispatch.h"

namespace tessera {
namespace {

// A record of these needs a class of client-stub/device_work around it: no call takes it.
template <typename Request>
concept AnyCallAppends = requires(Call& call, const Request& request) { call.Async(request); };
template <typename Request>
concept AnyCallAsks = requires(Call& call, const Request& request) { call.Sync(request); };
template <typename Request>
concept AnyCallDoesForAnother = requires(Call& call, const Request& request) {
  call.AsyncAs(request);
  call.SyncAs(request);
};
static_assert(AnyCallAppends<cuEventRecordRequest> && AnyCallAsks<cuStreamWaitValue32_v2Request>);
static_assert(!AnyCallAppends<cuLaunchKernelRequest> && !AnyCallAsks<cuLaunchKernelExRequest>);
static_assert(!AnyCallAppends<cuMemcpyAsyncRequest> && !AnyCallAsks<cuMemcpy3D_v2Request>);
static_assert(!AnyCallAsks<cuStreamWriteValue32_v2Request> && !AnyCallDoesForAnother<tesseraDeliverRequest>);

Mutex* const records_mutex = new Mutex;
auto* const records = new std::vector<uint32_t>;  // by call id, as the worker takes them up

std::vector<uint32_t> TakeRecords() {
  MutexLock lock(*records_mutex);
  return std::exchange(*records, {});
}

}  // namespace

void WrappedDispatch(uint32_t id, CallContext& call, Decoder& in) {
  {
    MutexLock lock(*records_mutex);
    records->push_back(id);
  }
  RealDispatch(id, call, in);
}

namespace {

constexpr size_t kBytes = 64;
constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 p) { ret; }
)";

CUDA_MEMCPY2D Rows(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = 16;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  return copy;
}

template <typename Copy>
Copy Box(CUdeviceptr to, CUdeviceptr from) {
  Copy copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = 16;
  copy.srcHeight = copy.dstHeight = 2;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  copy.Depth = 1;
  return copy;
}

class DeviceWorkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TESSERA_TEST_CHANNEL", "mirrored", 1);
    Ends();
  }
  void SetUp() override {
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&to_, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&from_, kBytes), CUDA_SUCCESS);
    CUDA_ARRAY_DESCRIPTOR descriptor{};
    descriptor.Width = kBytes;
    descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    descriptor.NumChannels = 1;
    ASSERT_EQ(cuArrayCreate_v2(&array_, &descriptor), CUDA_SUCCESS);
    ASSERT_EQ(cuArrayCreate_v2(&other_array_, &descriptor), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&kernel_, module_, "nothing"), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphInstantiateWithFlags(&exec_, graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    delivered_ = NewPinned();
    mirrored_ = NewPinned();
    CUdeviceptr mirror = 0;
    ASSERT_EQ(cuMemHostGetDevicePointer_v2(&mirror, mirrored_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    for (uint64_t* const memory : pinned_) EXPECT_EQ(cuMemFreeHost(memory), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    EXPECT_EQ(cuArrayDestroy(other_array_), CUDA_SUCCESS);
    EXPECT_EQ(cuArrayDestroy(array_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(from_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(to_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  }
  uint64_t* NewPinned() {
    void* memory = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&memory, kBytes, 0), CUDA_SUCCESS);
    pinned_.push_back(static_cast<uint64_t*>(memory));
    return pinned_.back();
  }
  // The records that a call, and what is done around it, has led to.
  std::vector<uint32_t> RecordsOf(const std::function<CUresult()>& call, CUresult expected = CUDA_SUCCESS) {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    TakeRecords();
    EXPECT_EQ(call(), expected);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    return TakeRecords();
  }

  CUresult Launch(uint64_t parameter) {
    void* parameters[] = {&parameter};
    return cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr);
  }
  CUresult LaunchEx(uint64_t parameter) {
    void* parameters[] = {&parameter};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream_;
    return cuLaunchKernelEx(&config, kernel_, parameters, nullptr);
  }
  CUresult LaunchCooperative(uint64_t parameter) {
    void* parameters[] = {&parameter};
    return cuLaunchCooperativeKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters);
  }
  CUresult LaunchOnAll(uint64_t parameter) {
    void* parameters[] = {&parameter};
    CUDA_LAUNCH_PARAMS launch{kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters};
    return cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0);
  }
  template <typename Batch>
  CUresult WriteInBatch(Batch batch) {
    CUstreamBatchMemOpParams operation{};
    operation.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = to_;
    return batch(stream_, 1, &operation, 0);
  }
  template <typename Copy>
  CUresult CopyBatch(Copy copy) {
    CUdeviceptr to = to_, from = from_;
    size_t bytes = kBytes, index = 0;
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return copy(&to, &from, &bytes, 1, &attributes, &index, 1);
  }
  CUDA_MEMCPY3D_BATCH_OP BatchBox() const {
    CUDA_MEMCPY3D_BATCH_OP box{};
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = from_;
    box.dst.op.ptr.ptr = to_;
    box.extent = {8, 1, 1};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return box;
  }
  std::map<std::string, std::function<CUresult()>> Calls();

  CUstream stream_ = nullptr;
  CUdeviceptr to_ = 0, from_ = 0;
  CUarray array_ = nullptr, other_array_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::vector<uint64_t*> pinned_;
  uint64_t* delivered_ = nullptr;  // has no mirror
  uint64_t* mirrored_ = nullptr;
  unsigned char ordinary_[kBytes] = {};
};

std::map<std::string, std::function<CUresult()>> DeviceWorkTest::Calls() {
  const CUcontext context = Ends().context();
  return {
      {"cuLaunchKernel", [&] { return Launch(0); }},
      {"cuLaunchKernelEx", [&] { return LaunchEx(0); }},
      {"cuLaunchCooperativeKernel", [&] { return LaunchCooperative(0); }},
      {"cuLaunchCooperativeKernelMultiDevice", [&] { return LaunchOnAll(0); }},
      {"cuGraphLaunch", [&] { return cuGraphLaunch(exec_, stream_); }},
      {"cuStreamWriteValue32", [&] { return cuStreamWriteValue32(stream_, to_, 1, 0); }},
      {"cuStreamWriteValue32_v2", [&] { return cuStreamWriteValue32_v2(stream_, to_, 1, 0); }},
      {"cuStreamWriteValue64", [&] { return cuStreamWriteValue64(stream_, to_, 1, 0); }},
      {"cuStreamWriteValue64_v2", [&] { return cuStreamWriteValue64_v2(stream_, to_, 1, 0); }},
      {"cuStreamBatchMemOp", [&] { return WriteInBatch(&cuStreamBatchMemOp); }},
      {"cuStreamBatchMemOp_v2", [&] { return WriteInBatch(&cuStreamBatchMemOp_v2); }},
      {"cuMemsetD8_v2", [&] { return cuMemsetD8_v2(to_, 1, 4); }},
      {"cuMemsetD16_v2", [&] { return cuMemsetD16_v2(to_, 1, 4); }},
      {"cuMemsetD32_v2", [&] { return cuMemsetD32_v2(to_, 1, 4); }},
      {"cuMemsetD2D8_v2", [&] { return cuMemsetD2D8_v2(to_, 16, 1, 4, 2); }},
      {"cuMemsetD2D16_v2", [&] { return cuMemsetD2D16_v2(to_, 16, 1, 4, 2); }},
      {"cuMemsetD2D32_v2", [&] { return cuMemsetD2D32_v2(to_, 16, 1, 4, 2); }},
      {"cuMemsetD8Async", [&] { return cuMemsetD8Async(to_, 1, 4, stream_); }},
      {"cuMemsetD16Async", [&] { return cuMemsetD16Async(to_, 1, 4, stream_); }},
      {"cuMemsetD32Async", [&] { return cuMemsetD32Async(to_, 1, 4, stream_); }},
      {"cuMemsetD2D8Async", [&] { return cuMemsetD2D8Async(to_, 16, 1, 4, 2, stream_); }},
      {"cuMemsetD2D16Async", [&] { return cuMemsetD2D16Async(to_, 16, 1, 4, 2, stream_); }},
      {"cuMemsetD2D32Async", [&] { return cuMemsetD2D32Async(to_, 16, 1, 4, 2, stream_); }},
      {"cuMemcpy", [&] { return cuMemcpy(to_, from_, kBytes); }},
      {"cuMemcpyAsync", [&] { return cuMemcpyAsync(to_, from_, kBytes, stream_); }},
      {"cuMemcpyHtoD_v2", [&] { return cuMemcpyHtoD_v2(to_, ordinary_, kBytes); }},
      {"cuMemcpyHtoDAsync_v2", [&] { return cuMemcpyHtoDAsync_v2(to_, ordinary_, kBytes, stream_); }},
      {"cuMemcpyDtoH_v2", [&] { return cuMemcpyDtoH_v2(ordinary_, from_, kBytes); }},
      {"cuMemcpyDtoHAsync_v2", [&] { return cuMemcpyDtoHAsync_v2(ordinary_, from_, kBytes, stream_); }},
      {"tesseraDeliver", [&] { return cuMemcpyDtoHAsync_v2(delivered_, from_, kBytes, stream_); }},
      {"cuMemcpyDtoD_v2", [&] { return cuMemcpyDtoD_v2(to_, from_, kBytes); }},
      {"cuMemcpyDtoDAsync_v2", [&] { return cuMemcpyDtoDAsync_v2(to_, from_, kBytes, stream_); }},
      {"cuMemcpyDtoA_v2", [&] { return cuMemcpyDtoA_v2(array_, 0, from_, kBytes); }},
      {"cuMemcpyAtoD_v2", [&] { return cuMemcpyAtoD_v2(to_, array_, 0, kBytes); }},
      {"cuMemcpyHtoA_v2", [&] { return cuMemcpyHtoA_v2(array_, 0, ordinary_, kBytes); }},
      {"cuMemcpyHtoAAsync_v2", [&] { return cuMemcpyHtoAAsync_v2(array_, 0, ordinary_, kBytes, stream_); }},
      {"cuMemcpyAtoH_v2", [&] { return cuMemcpyAtoH_v2(ordinary_, array_, 0, kBytes); }},
      {"cuMemcpyAtoHAsync_v2", [&] { return cuMemcpyAtoHAsync_v2(ordinary_, array_, 0, kBytes, stream_); }},
      {"cuMemcpyAtoA_v2", [&] { return cuMemcpyAtoA_v2(array_, 0, other_array_, 0, kBytes); }},
      {"cuMemcpyPeer", [=, this] { return cuMemcpyPeer(to_, context, from_, context, kBytes); }},
      {"cuMemcpyPeerAsync", [=, this] { return cuMemcpyPeerAsync(to_, context, from_, context, kBytes, stream_); }},
      {"cuMemcpy2D_v2",
       [&] {
         const auto copy = Rows(to_, from_);
         return cuMemcpy2D_v2(&copy);
       }},
      {"cuMemcpy2DUnaligned_v2",
       [&] {
         const auto copy = Rows(to_, from_);
         return cuMemcpy2DUnaligned_v2(&copy);
       }},
      {"cuMemcpy2DAsync_v2",
       [&] {
         const auto copy = Rows(to_, from_);
         return cuMemcpy2DAsync_v2(&copy, stream_);
       }},
      {"cuMemcpy3D_v2",
       [&] {
         const auto copy = Box<CUDA_MEMCPY3D>(to_, from_);
         return cuMemcpy3D_v2(&copy);
       }},
      {"cuMemcpy3DAsync_v2",
       [&] {
         const auto copy = Box<CUDA_MEMCPY3D>(to_, from_);
         return cuMemcpy3DAsync_v2(&copy, stream_);
       }},
      {"cuMemcpy3DPeer",
       [=, this] {
         auto copy = Box<CUDA_MEMCPY3D_PEER>(to_, from_);
         copy.srcContext = copy.dstContext = context;
         return cuMemcpy3DPeer(&copy);
       }},
      {"cuMemcpy3DPeerAsync",
       [=, this] {
         auto copy = Box<CUDA_MEMCPY3D_PEER>(to_, from_);
         copy.srcContext = copy.dstContext = context;
         return cuMemcpy3DPeerAsync(&copy, stream_);
       }},
      {"cuMemcpyBatchAsync",
       [&] {
         size_t failed = 0;
         return CopyBatch([&](auto... arguments) { return cuMemcpyBatchAsync(arguments..., &failed, stream_); });
       }},
      {"cuMemcpyBatchAsync_v2",
       [&] { return CopyBatch([&](auto... arguments) { return cuMemcpyBatchAsync_v2(arguments..., stream_); }); }},
      {"cuMemcpy3DBatchAsync",
       [&] {
         auto box = BatchBox();
         size_t failed = 0;
         return cuMemcpy3DBatchAsync(1, &box, &failed, 0, stream_);
       }},
      {"cuMemcpy3DBatchAsync_v2",
       [&] {
         auto box = BatchBox();
         return cuMemcpy3DBatchAsync_v2(1, &box, 0, stream_);
       }},
  };
}

// The driver refuses them (580): what follows the record of a call that succeeds does not follow these.
constexpr std::array<std::string_view, 3> kRefused = {"cuStreamWriteValue32", "cuStreamWriteValue64", "cuStreamBatchMemOp"};

TEST_F(DeviceWorkTest, EachRecordFindsWhatTheProgramHasWritten) {
  const auto calls = Calls();
  for (const WorkRow& row : AllWork()) {
    SCOPED_TRACE(row.name);
    const auto call = calls.find(row.name);
    ASSERT_NE(call, calls.end()) << "gives the device work and is not tested here";
    const bool refused = std::find(kRefused.begin(), kRefused.end(), row.name) != kRefused.end();
    const CUresult expected = refused ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    RecordsOf(call->second, expected);  // the first time, more is asked
    ++*mirrored_;
    const std::vector<uint32_t> seen = RecordsOf(call->second, expected);
    const auto record = std::find(seen.begin(), seen.end(), row.id);
    ASSERT_NE(record, seen.end());
    EXPECT_NE(std::find(seen.begin(), record, tesseraHostChangesToldRequest::kId), record) << "not told before";
    const auto used = std::find(record, seen.end(), tesseraMirrorsUsedRequest::kId);
    EXPECT_EQ(used != seen.end(), row.touches != Touches::kRanges && !refused) << "told of work that may use mirrors";
  }
  EXPECT_EQ(calls.size(), AllWork().size());
}

TEST_F(DeviceWorkTest, MemoryThatARecordShowsGetsAMirror) {
  const auto opens = [&](const std::function<CUresult(uint64_t * shown)>& call) {
    const std::vector<uint32_t> seen = RecordsOf([&] { return call(NewPinned()); });
    return std::find(seen.begin(), seen.end(), tesseraMirrorOpenRequest::kId) != seen.end();
  };
  const auto number = [](uint64_t* shown) { return reinterpret_cast<uint64_t>(shown); };
  EXPECT_TRUE(opens([&](uint64_t* shown) { return Launch(number(shown)); }));
  EXPECT_TRUE(opens([&](uint64_t* shown) { return LaunchEx(number(shown)); }));
  EXPECT_TRUE(opens([&](uint64_t* shown) { return LaunchCooperative(number(shown)); }));
  EXPECT_TRUE(opens([&](uint64_t* shown) { return LaunchOnAll(number(shown)); }));
  EXPECT_TRUE(opens([&](uint64_t* shown) { return cuMemcpyHtoD_v2(to_, &shown, sizeof(shown)); }));
  EXPECT_TRUE(opens([&](uint64_t* shown) { return cuMemcpyHtoDAsync_v2(to_, &shown, sizeof(shown), stream_); }));
  EXPECT_TRUE(opens([&](uint64_t* shown) {
    auto copy = Rows(to_, 0);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = &shown;
    copy.srcPitch = copy.WidthInBytes = sizeof(shown);
    copy.Height = 1;
    return cuMemcpy2DAsync_v2(&copy, stream_);
  }));
  EXPECT_FALSE(opens([&](uint64_t*) { return Launch(0); }));
}

}  // namespace
}  // namespace tessera
