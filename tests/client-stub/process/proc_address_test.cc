// cuGetProcAddress, as measured on driver 580.
#include "client-stub/process/proc_address.h"

#include <cuda.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

ProcAddressAnswer Find(const char* name, int version, cuuint64_t flags = 0) {
  return FindProcAddress(name, version, flags, CUDA_VERSION);
}

TEST(ProcAddress, TheNewestVariantThatIsNotTooNew) {
  EXPECT_EQ(Find("cuMemAlloc", 2000).function, Address(&cuMemAlloc));
  EXPECT_EQ(Find("cuMemAlloc", 3020).function, Address(&cuMemAlloc_v2));
  EXPECT_EQ(Find("cuMemAlloc", 13000).function, Address(&cuMemAlloc_v2));
  EXPECT_EQ(Find("cuMemAlloc", -1).function, Address(&cuMemAlloc_v2));
  EXPECT_EQ(Find("cuCtxGetDevice", 12090).function, Address(&cuCtxGetDevice));
  EXPECT_EQ(Find("cuCtxGetDevice", 13000).function, Address(&cuCtxGetDevice_v2));
  EXPECT_EQ(Find("cuGetProcAddress", 11030).function, Address(&cuGetProcAddress));
  EXPECT_EQ(Find("cuGetProcAddress", 12000).function, Address(&cuGetProcAddress_v2));
  EXPECT_EQ(Find("cuMemAlloc", 13000).status, CU_GET_PROC_ADDRESS_SUCCESS);
}

TEST(ProcAddress, PerThreadFormsHaveTheirOwnVersion) {
  EXPECT_EQ(Find("cuMemcpy", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).function, Address(&cuMemcpy_ptds));
  EXPECT_EQ(Find("cuMemcpy", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM).function, Address(&cuMemcpy));
  const ProcAddressAnswer early = Find("cuMemcpy", 6000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  EXPECT_EQ(early.function, nullptr);
  EXPECT_EQ(early.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  // A function without such a form is the same either way.
  EXPECT_EQ(Find("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).function, Address(&cuMemAlloc_v2));
}

// They are there, as in the driver, and say that they are not supported.
TEST(ProcAddress, GraphicsInteroperability) {
  const ProcAddressAnswer old = Find("cuGLMapBufferObject", 2000);
  const ProcAddressAnswer newer = Find("cuGLMapBufferObject", 13000);
  const ProcAddressAnswer per_thread = Find("cuGLMapBufferObject", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  for (const ProcAddressAnswer& answer : {old, newer, per_thread}) {
    ASSERT_NE(answer.function, nullptr);
    EXPECT_EQ(reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t*, unsigned)>(answer.function)(nullptr, nullptr, 0),
              CUDA_ERROR_NOT_INITIALIZED)
        << "before cuInit";
  }
  EXPECT_NE(old.function, newer.function);
  EXPECT_NE(newer.function, per_thread.function);
  EXPECT_NE(Find("cuGraphicsEGLRegisterImage", 13000).function, nullptr);
  EXPECT_NE(Find("cuVDPAUGetDevice", 13000).function, nullptr);
}

TEST(ProcAddress, WhatIsNotFoundIsNoError) {
  for (const char* name : {"cuNoSuchThing", "", "cuMemAlloc_v2", "cuEGLApiInit"}) {
    const ProcAddressAnswer answer = Find(name, 13000);
    EXPECT_EQ(answer.result, CUDA_SUCCESS) << name;
    EXPECT_EQ(answer.function, nullptr) << name;
    EXPECT_EQ(answer.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) << name;
  }
  EXPECT_EQ(Find("cuMemAlloc", 1).status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(Find("cuMemAlloc", 0).status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST(ProcAddress, RefusesVersionsAndFlagsItDoesNotKnow) {
  EXPECT_EQ(Find("cuMemAlloc", 99999).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Find("cuMemAlloc", 13000, 4).result, CUDA_ERROR_INVALID_VALUE);
}

TEST(ProcAddress, BothEntriesAnswerBeforeInitialisation) {
  void* function = Address(&cuInit);
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress_v2("nothing", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &function, 13000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(function, Address(&cuInit));
  // The older form reports what it does not find, and leaves the output alone.
  EXPECT_EQ(cuGetProcAddress("nothing", &function, 13000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(function, Address(&cuInit));
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &function, 1, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &function, 13000, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, Address(&cuMemAlloc_v2));
}

}  // namespace
}  // namespace tessera
