// Loads a driver by dlopen, as the worker does, and gives each test a context of its own.
//
// The driver is the emulator unless TESSERA_TEST_DRIVER names another library, such as libcuda.so.1 of a machine with a
// device: what these tests expect is what the real driver does, except where Emulated() is asked.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tessera {

void* DriverSymbol(const char* name);
bool Emulated();
const std::string& KernelText();

// cu(MemAlloc_v2)(...) calls cuMemAlloc_v2 of the driver under test.
#define cu(name) (reinterpret_cast<decltype(&::cu##name)>(::tessera::DriverSymbol("cu" #name)))
#define EXPECT_CU(call) EXPECT_EQ(CUDA_SUCCESS, (call))
#define ASSERT_CU(call) ASSERT_EQ(CUDA_SUCCESS, (call))

class DriverTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_CU(cu(MemAlloc_v2)(&pointer, bytes));
    return pointer;
  }
  template <typename T = int>
  T* Pinned(size_t count) {
    void* pointer = nullptr;
    EXPECT_CU(cu(MemHostAlloc)(&pointer, count * sizeof(T), 0));
    return static_cast<T*>(pointer);
  }
  CUstream Stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_CU(cu(StreamCreate)(&stream, flags));
    return stream;
  }
  CUevent Event(unsigned flags = 0) {
    CUevent event = nullptr;
    EXPECT_CU(cu(EventCreate)(&event, flags));
    return event;
  }
  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_CU(cu(ModuleGetFunction)(&function, Module(), name));
    return function;
  }
  CUmodule Module() {
    if (module_ == nullptr) {
      EXPECT_CU(cu(ModuleLoadData)(&module_, KernelText().c_str()));
    }
    return module_;
  }
  template <typename... Args>
  CUresult Launch(const char* name, unsigned grid, unsigned block, CUstream stream, Args... args) {
    void* params[] = {&args..., nullptr};
    return cu(LaunchKernel)(Function(name), grid, 1, 1, block, 1, 1, 0, stream, params, nullptr);
  }
  std::vector<int> Read(CUdeviceptr from, size_t count) {
    std::vector<int> values(count);
    EXPECT_CU(cu(MemcpyDtoH_v2)(values.data(), from, count * sizeof(int)));
    return values;
  }
  int ReadOne(CUdeviceptr from) { return Read(from, 1)[0]; }
  void Write(CUdeviceptr to, const std::vector<int>& values) {
    EXPECT_CU(cu(MemcpyHtoD_v2)(to, values.data(), values.size() * sizeof(int)));
  }
  // After a fault nothing but the end of the context is left.
  void ContextHasFailed() { failed_ = true; }

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;

 private:
  CUmodule module_ = nullptr;
  bool failed_ = false;
};

}  // namespace tessera
