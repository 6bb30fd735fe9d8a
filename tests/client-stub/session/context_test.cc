// Contexts as an application sees them, with a scripted server. Expectations are what driver 580 answered.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/session/reply_reader.h"
#include "generated/client/context.h"
#include "generated/client/primary_context.h"
#include "tests/client-stub/session/fake_server.h"

namespace tessera {
namespace {

class ContextTest : public testing::Test {
 protected:
  CUcontext Retain(CUdevice device = 0) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    return context;
  }
  int Active(unsigned* flags_out = nullptr) {
    unsigned flags = 0;
    int active = -1;
    EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    if (flags_out != nullptr) *flags_out = flags;
    return active;
  }
  size_t Retains() { return server_.Count(kInfo_cuDevicePrimaryCtxRetain.id); }
  size_t Releases() { return server_.Count(kInfo_cuDevicePrimaryCtxRelease_v2.id); }

  FakeServer server_;
};

TEST_F(ContextTest, OnlyTheFirstRetainAndTheLastReleaseReachTheServer) {
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  const CUcontext first = Retain();
  EXPECT_EQ(Retain(), first);
  EXPECT_EQ(Retains(), 1u);
  EXPECT_EQ(Active(), 1);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(Releases(), 0u);
  EXPECT_EQ(Active(), 1);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(Releases(), 1u);
  EXPECT_EQ(Active(), 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(Retain(), first) << "the handle of a primary context never changes";
}

TEST_F(ContextTest, ChecksTheArgumentsOfPrimaryContextCalls) {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, nullptr, &active), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(-1, &flags, &active), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, 0x1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS) << "nothing to reset";
}

TEST_F(ContextTest, FlagsOfAPrimaryContext) {
  std::atomic<bool>& may_spin_long = SessionFlags::Process().may_spin_long;
  may_spin_long.store(true);
  unsigned flags = 9;
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN), CUDA_SUCCESS);
  EXPECT_TRUE(may_spin_long.load());
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC), CUDA_SUCCESS);
  EXPECT_FALSE(may_spin_long.exchange(true));
  EXPECT_EQ(Active(&flags), 0);
  EXPECT_EQ(flags, unsigned{CU_CTX_SCHED_BLOCKING_SYNC});
  ASSERT_EQ(cuCtxSetCurrent(Retain()), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD), CUDA_SUCCESS);
  Active(&flags);
  EXPECT_EQ(flags, 2u);
  EXPECT_EQ(cuCtxGetFlags(&flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0xau);
  EXPECT_EQ(cuCtxSetFlags(CU_CTX_SCHED_SPIN), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetFlags(&flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, 9u);
  Active(&flags);
  EXPECT_EQ(flags, 2u);
  EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  EXPECT_EQ(Active(&flags), 0);
  EXPECT_EQ(flags, 0u);
}

TEST_F(ContextTest, APrimaryContextThatNobodyRetainsCanBeCurrentButNotUsed) {
  const CUcontext context = Retain();
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuCtxGetDevice_v2(&device, context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxSynchronize_v2(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  unsigned long long number = 0;
  EXPECT_EQ(cuCtxGetId(context, &number), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  unsigned version = 0;
  EXPECT_EQ(cuCtxGetApiVersion(context, &version), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextTest, NumbersAreNeverUsedAgain) {
  unsigned long long first = 0, second = 0, created = 0;
  const CUcontext context = Retain();
  ASSERT_EQ(cuCtxGetId(context, &first), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  Retain();
  ASSERT_EQ(cuCtxGetId(context, &second), CUDA_SUCCESS);
  EXPECT_NE(first, second);
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetId(nullptr, &created), CUDA_SUCCESS);
  EXPECT_NE(created, first);
  EXPECT_NE(created, second);
  EXPECT_EQ(cuCtxGetId(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextTest, TheStackBelongsToTheThread) {
  const CUcontext zero = Retain(0), one = Retain(1);
  CUcontext popped = nullptr;
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxPushCurrent(zero), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent(one), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  std::thread([&] {
    CUcontext current = zero;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
    CUdevice none = -1;
    EXPECT_EQ(cuCtxGetDevice(&none), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxGetDevice(nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxGetDevice_v2(&none, one), CUDA_SUCCESS);
    EXPECT_EQ(none, 1);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  EXPECT_EQ(cuCtxSetCurrent(zero), CUDA_SUCCESS) << "replaces the top";
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, zero);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, zero);
  EXPECT_EQ(cuCtxSetCurrent(one), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x12340)), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextTest, RecordsNameTheThreadAndItsContext) {
  ASSERT_EQ(cuCtxSetCurrent(Retain(1)), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }).join();
  std::vector<RecordHeader> synchronizes;
  for (const RecordHeader& header : server_.Headers()) {
    if (header.call == kInfo_cuCtxSynchronize.id) synchronizes.push_back(header);
  }
  ASSERT_EQ(synchronizes.size(), 2u);
  EXPECT_EQ(synchronizes[0].context, reinterpret_cast<uint64_t>(context));
  EXPECT_EQ(synchronizes[1].context, reinterpret_cast<uint64_t>(context));
  EXPECT_NE(synchronizes[0].thread, synchronizes[1].thread);
}

TEST_F(ContextTest, CreatedContextsAreCurrentUntilDestroyed) {
  ASSERT_EQ(cuCtxSetCurrent(Retain()), CUDA_SUCCESS);
  CUcontext context = nullptr, current = nullptr;
  EXPECT_EQ(cuCtxCreate_v2(nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxCreate_v2(&context, 0x1000, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxCreate_v2(&context, 0, 7), CUDA_ERROR_INVALID_DEVICE);
  ASSERT_EQ(cuCtxCreate_v4(&context, nullptr, CU_CTX_SCHED_SPIN, 1), CUDA_SUCCESS);
  cuCtxGetCurrent(&current);
  EXPECT_EQ(current, context);
  unsigned value = 0;
  EXPECT_EQ(cuCtxGetFlags(&value), CUDA_SUCCESS);
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(cuCtxGetApiVersion(context, &value), CUDA_SUCCESS);
  EXPECT_EQ(value, 3020u);
  EXPECT_EQ(cuCtxDestroy_v2(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  cuCtxGetCurrent(&current);
  EXPECT_NE(current, context);
  EXPECT_NE(current, nullptr);
}

TEST_F(ContextTest, UsageCountsEndACreatedContext) {
  CUcontext context = nullptr, attached = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxAttach(&attached, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxAttach(&attached, 0), CUDA_SUCCESS);
  EXPECT_EQ(attached, context);
  EXPECT_EQ(cuCtxDetach(context), CUDA_SUCCESS);
  EXPECT_EQ(server_.Count(kInfo_cuCtxDestroy_v2.id), 0u);
  EXPECT_EQ(cuCtxDetach(context), CUDA_SUCCESS);
  EXPECT_EQ(server_.Count(kInfo_cuCtxDestroy_v2.id), 1u);
  EXPECT_EQ(cuCtxDetach(context), CUDA_ERROR_INVALID_CONTEXT);
}

// --- context-local storage ---

using Destructor = void (*)(CUcontext, void*, void*);
CUresult Put(CUcontext context, void* key, void* value, Destructor destructor) {
  return reinterpret_cast<CUresult (*)(CUcontext, void*, void*, Destructor)>(static_cast<void* const*>(ContextLocalStorage())[0])(
      context, key, value, destructor);
}
CUresult Remove(CUcontext context, void* key) {
  return reinterpret_cast<CUresult (*)(CUcontext, void*)>(static_cast<void* const*>(ContextLocalStorage())[1])(context, key);
}
CUresult Get(void** value, CUcontext context, void* key) {
  return reinterpret_cast<CUresult (*)(void**, CUcontext, void*)>(static_cast<void* const*>(ContextLocalStorage())[2])(
      value, context, key);
}

struct Destroyed {
  CUcontext context;
  void* key;
  void* value;
  CUresult get;  // what fetching the key inside the destructor gave
};
std::vector<Destroyed> destroyed;
void RememberDestroyed(CUcontext context, void* key, void* value) {
  void* inside = nullptr;
  const CUresult get = Get(&inside, context, key);
  destroyed.push_back({context, key, value, get});
}

TEST_F(ContextTest, LocalStorageKeepsTheFirstValueOfAKey) {
  int a = 0, b = 0;
  void* value = nullptr;
  EXPECT_EQ(Get(&value, nullptr, &a), CUDA_ERROR_INVALID_CONTEXT) << "no current context";
  const CUcontext context = Retain();
  EXPECT_EQ(Get(&value, context, &a), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Put(context, &a, &b, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Put(context, &a, &a, nullptr), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(Get(&value, nullptr, &a), CUDA_SUCCESS);
  EXPECT_EQ(value, &b);
  EXPECT_EQ(Get(&value, reinterpret_cast<CUcontext>(-1), &a), CUDA_SUCCESS);
  EXPECT_EQ(Get(&value, Retain(1), &a), CUDA_ERROR_INVALID_HANDLE) << "another context";
  EXPECT_EQ(Remove(context, &b), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Remove(context, &a), CUDA_SUCCESS);
  EXPECT_EQ(Get(&value, context, &a), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ContextTest, DestructorsRunWhenTheContextEndsAndMayCallBack) {
  int a = 0, b = 0, c = 0;
  for (const bool reset : {true, false}) {
    const CUcontext context = Retain();
    destroyed.clear();
    EXPECT_EQ(Put(context, &a, &b, &RememberDestroyed), CUDA_SUCCESS);
    EXPECT_EQ(Put(context, &b, &a, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(Put(context, &c, &c, &RememberDestroyed), CUDA_SUCCESS);
    EXPECT_EQ(Remove(context, &c), CUDA_SUCCESS) << "removal calls no destructor";
    if (reset) {
      EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    } else {
      while (cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS) {
      }
    }
    ASSERT_EQ(destroyed.size(), 1u) << reset;
    EXPECT_EQ(destroyed[0].context, context);
    EXPECT_EQ(destroyed[0].key, &a);
    EXPECT_EQ(destroyed[0].value, &b);
    EXPECT_EQ(destroyed[0].get, CUDA_ERROR_INVALID_HANDLE) << "the entry is gone before its destructor runs";
    void* value = nullptr;
    EXPECT_EQ(Get(&value, context, &b), CUDA_ERROR_INVALID_HANDLE);
  }
}

// --- devices ---

TEST_F(ContextTest, DeviceQuestionsNeedNoRoundTrip) {
  int value = 0;
  EXPECT_EQ(cuDeviceGetCount(&value), CUDA_SUCCESS);
  EXPECT_EQ(value, 2);
  char text[32] = {};
  EXPECT_EQ(cuDeviceGetName(text, 5, 1), CUDA_SUCCESS);
  EXPECT_STREQ(text, "Test");
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1), CUDA_SUCCESS);
  EXPECT_EQ(value, 32);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 0) << "filtered: the snapshot says 1";
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(5000), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(5000), 9), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetPCIBusId(text, 12, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetPCIBusId(text, 13, 1), CUDA_SUCCESS);
  EXPECT_STREQ(text, "0001:0a:00.0");
  CUdevice device = -1;
  for (const char* id : {"0001:0a:00.0", "0001:0A:00", "1:a:0"}) {
    EXPECT_EQ(cuDeviceGetByPCIBusId(&device, id), CUDA_SUCCESS) << id;
    EXPECT_EQ(device, 1);
  }
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "02:00.0"), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "zzz"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "00ff:ff:1f.0"), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceCanAccessPeer(&value, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cuDeviceCanAccessPeer(&value, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cuDeviceCanAccessPeer(&value, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_TRUE(server_.Headers().empty());
}

TEST(DeviceSnapshot, SurvivesTheWireAndNoPrefixDoes) {
  DeviceSnapshot snapshot = TestSnapshot();
  snapshot.selection = "1,0";
  Encoder out;
  snapshot.Encode(out);
  Result<DeviceSnapshot> read = DeviceSnapshot::Decode(out.bytes());
  ASSERT_TRUE(read.ok());
  Encoder again;
  read->Encode(again);
  ASSERT_EQ(out.size(), again.size());
  EXPECT_TRUE(std::equal(out.bytes().begin(), out.bytes().end(), again.bytes().begin()));
  EXPECT_EQ(read->selection, "1,0");
  for (size_t size = 0; size < out.size(); size += 7) {
    EXPECT_FALSE(DeviceSnapshot::Decode(out.bytes().first(size)).ok()) << size;
  }
}

}  // namespace
}  // namespace tessera
