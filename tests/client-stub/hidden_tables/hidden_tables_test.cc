// The hidden tables: sizes as measured on driver 580, and the answers that libraries depend on.
#include "client-stub/hidden_tables/hidden_tables.h"

#include <cuda.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "client-stub/hidden_tables/integrity_check.h"
#include "client-stub/hidden_tables/md2.h"
#include "client-stub/process/error_table.h"
#include "tests/client-stub/session/fake_server.h"

namespace tessera {
namespace {

std::string Hex(const Md2Digest& digest) {
  std::string text;
  char two[3];
  for (const uint8_t byte : digest) {
    snprintf(two, sizeof(two), "%02x", byte);
    text += two;
  }
  return text;
}

Md2Digest Md2Of(std::string_view text) { return Md2({reinterpret_cast<const uint8_t*>(text.data()), text.size()}); }

TEST(Md2, VectorsOfRfc1319) {
  EXPECT_EQ(Hex(Md2Of("")), "8350e5a3e24c153df2275c9f80692773");
  EXPECT_EQ(Hex(Md2Of("a")), "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  EXPECT_EQ(Hex(Md2Of("abc")), "da853b0d3f88d99b30283a69e6ded6bb");
  EXPECT_EQ(Hex(Md2Of("message digest")), "ab4f496bfb2a530b219ff33031fe06b0");
  EXPECT_EQ(Hex(Md2Of("abcdefghijklmnopqrstuvwxyz")), "4e8ddff3650292ab5a4108c3aa47940b");
}

IntegrityFacts TestFacts() {
  IntegrityFacts facts;
  facts.driver_version = 13000;
  facts.version = 13002;
  facts.process = 1234;
  facts.thread = 0x89abcdef;
  facts.cudart_table = 0x7f0000001000;
  facts.integrity_table = 0x7f0000002000;
  facts.function = 0x7f0000003000;
  facts.seconds = 1700000000;
  return facts;
}

TEST(IntegrityAnswer, Vectors) {
  EXPECT_EQ(Hex(IntegrityAnswer(TestFacts(), {})), "3ad2ce77733bf22b5718ac2fb57894bb");
  IntegrityDevice device{};
  for (int i = 0; i < 16; ++i) device.uuid[i] = static_cast<uint8_t>(0x10 + i);
  device.pci_bus = 2;
  EXPECT_EQ(Hex(IntegrityAnswer(TestFacts(), {&device, 1})), "556e947ff552a45a3b4a8fa15f0e8dbd");
}

TEST(IntegrityAnswer, VersionsEndingInZeroAndOneHaveConstants) {
  IntegrityFacts facts = TestFacts();
  facts.version = 13000;
  EXPECT_EQ(Hex(IntegrityAnswer(facts, {})), "5c67cb031c184133e8d14c1faa83d38e");
  facts.version = 13001;
  EXPECT_EQ(Hex(IntegrityAnswer(facts, {})), "5c67cb031c184118e8d14c1faa83d38e");
}

CUuuid Id(const char* hex) {
  CUuuid id{};
  for (int i = 0; i < 16; ++i) {
    unsigned byte = 0;
    sscanf(hex + 2 * i, "%2x", &byte);
    id.bytes[i] = static_cast<char>(byte);
  }
  return id;
}

TEST(HiddenTables, HaveTheMeasuredSizesAndNoHoles) {
  const struct {
    const char* id;
    size_t words;
  } kTables[] = {{"6bd5fb6c5bf4e74a8987d93912fd9df9", 13}, {"a094798c2e742e7493f20800200c0a66", 7},
                 {"42d85a8123f6cb478298f6e78a3aecdc", 3},  {"263e88607cd2614392f6bbd5006dfa7e", 15},
                 {"d4082055bde6704b8d34ba123c66e1f2", 3},  {"21318c60971432488ca641ff7324c8f2", 93},
                 {"6e163fbeb958444d835ce182aff1991e", 99}, {"1734dc26800d47458726c0f1e7dd8bca", 17},
                 {"da9151d33ae6cc41a5c04f26d533e328", 7}};
  for (const auto& expected : kTables) {
    const void* table = nullptr;
    const CUuuid id = Id(expected.id);
    ASSERT_EQ(cuGetExportTable(&table, &id), CUDA_SUCCESS) << expected.id;
    EXPECT_EQ(*static_cast<const size_t*>(table), expected.words * 8) << expected.id;
    for (size_t i = 1; i < expected.words; ++i) EXPECT_NE(static_cast<void* const*>(table)[i], nullptr) << expected.id;
    const void* again = nullptr;
    cuGetExportTable(&again, &id);
    EXPECT_EQ(table, again);
  }
}

TEST(HiddenTables, AnUnknownTableIsRefusedAndClearsThePointer) {
  const void* table = &table;
  const CUuuid id = Id("f8cff95121468b4eb9e2fb469e7c0dd9");
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table, nullptr);
}

template <typename Function>
Function* Slot(const void* table, size_t slot) {
  return reinterpret_cast<Function*>(static_cast<void* const*>(table)[slot]);
}

TEST(HiddenTables, ASlotThatIsNotServedSaysSo) {
  EXPECT_EQ(Slot<CUresult()>(ClusterMap(), 13)(), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Slot<CUresult()>(ContextQueries(), 92)(), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(HiddenTables, TheRuntimesCallbackFlagsAreZeroAndLongEnough) {
  uint32_t* flags = nullptr;
  size_t count = 0;
  Slot<void(uint32_t**, size_t*)>(RuntimeHooks(), 2)(&flags, &count);
  ASSERT_EQ(count, 1024u);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(flags[i], 0u);
  Slot<void(uint32_t**, size_t*)>(RuntimeHooks(), 6)(&flags, &count);
  ASSERT_EQ(count, 14u);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(flags[i], 0u);
}

TEST(HiddenTables, BeforeInitialisationThereIsNoContext) {
  CUcontext context = reinterpret_cast<CUcontext>(8);
  EXPECT_EQ(Slot<CUresult(CUcontext*)>(ToolsTls(), 2)(&context), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(context, reinterpret_cast<CUcontext>(8));
}

TEST(HiddenTables, AnswerAboutContexts) {
  FakeServer server;
  CUcontext early = nullptr;
  ASSERT_EQ((Slot<CUresult(CUcontext*, CUdevice)>(CudartInterface(), 2)(&early, 1)), CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 1;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  CUcontext retained = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&retained, 1), CUDA_SUCCESS);
  EXPECT_EQ(early, retained);
  EXPECT_EQ((Slot<CUresult(CUcontext*, CUdevice)>(CudartInterface(), 2)(&early, 2)), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ((Slot<CUresult(unsigned, void*)>(CudartInterface(), 3)(0, nullptr)), CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);

  CUcontext current = retained;
  EXPECT_EQ(Slot<CUresult(CUcontext*)>(ToolsTls(), 2)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  ASSERT_EQ(cuCtxSetCurrent(retained), CUDA_SUCCESS);
  EXPECT_EQ(Slot<CUresult(CUcontext*)>(ToolsTls(), 2)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, retained);

  unsigned long long number = 0;
  ASSERT_EQ(cuCtxGetId(retained, &number), CUDA_SUCCESS);
  for (const void* table : {RuntimeHooks(), ContextQueries()}) {
    uint64_t answer = 77;
    EXPECT_EQ((Slot<CUresult(CUcontext, uint64_t*)>(table, 4)(retained, &answer)), CUDA_SUCCESS);
    EXPECT_EQ(answer, number);
    EXPECT_EQ((Slot<CUresult(CUcontext, uint64_t*)>(table, 4)(nullptr, &answer)), CUDA_SUCCESS);
    EXPECT_EQ(answer, 0u);
  }
  uint32_t kind = 5;
  CUcontext other = reinterpret_cast<CUcontext>(8);
  EXPECT_EQ((Slot<CUresult(CUcontext, uint32_t*, CUcontext*)>(ContextChecks(), 2)(retained, &kind, &other)), CUDA_SUCCESS);
  EXPECT_EQ(kind, 0u);
  EXPECT_EQ(other, reinterpret_cast<CUcontext>(8));
  EXPECT_EQ(Slot<uint32_t()>(ContextChecks(), 3)(), 0u);
}

TEST(HiddenTables, TheIntegrityAnswerIsThatOfThisThreadAndItsDevices) {
  FakeServer server;
  uint8_t out[16] = {};
  ASSERT_EQ((Slot<CUresult(uint32_t, uint64_t, uint8_t*)>(IntegrityCheck(), 1)(13002, 1234567, out)), CUDA_SUCCESS);
  IntegrityFacts facts;
  facts.driver_version = 13000;
  facts.version = 13002;
  facts.process = static_cast<uint32_t>(getpid());
  facts.thread = static_cast<uint32_t>(pthread_self());
  facts.cudart_table = reinterpret_cast<uint64_t>(CudartInterface());
  facts.integrity_table = reinterpret_cast<uint64_t>(IntegrityCheck());
  facts.function = reinterpret_cast<uint64_t>(static_cast<void* const*>(IntegrityCheck())[1]);
  facts.seconds = 1234567;
  IntegrityDevice devices[2];
  for (int d = 0; d < 2; ++d) {
    CUuuid uuid;
    ASSERT_EQ(cuDeviceGetUuid(&uuid, d), CUDA_SUCCESS);
    std::memcpy(devices[d].uuid, uuid.bytes, 16);
    devices[d].pci_domain = static_cast<uint32_t>(d);
    devices[d].pci_bus = d == 0 ? 2 : 10;
    devices[d].pci_device = 0;
  }
  EXPECT_EQ(std::memcmp(IntegrityAnswer(facts, devices).data(), out, 16), 0);
}

TEST(ErrorTable, NamesEveryResultOfTheHeader) {
  for (const CUresult code : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE,
                              CUDA_ERROR_TENSOR_MEMORY_LEAK, CUDA_ERROR_KEY_ROTATION, CUDA_ERROR_UNKNOWN}) {
    EXPECT_NE(FindErrorText(code), nullptr) << code;
  }
  const char* text = "x";
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(cuGetErrorName(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tessera
