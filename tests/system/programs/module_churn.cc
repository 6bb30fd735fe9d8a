// Thousands of modules with variables are loaded and unloaded between allocations, copies and sets: the driver gives
// the addresses of variables that are gone to others, of other sizes, and what was there must not stand in their way.
#include <cuda.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr int kModules = 3000;
constexpr size_t kMebibyte = size_t{1} << 20;

std::string Ptx(size_t large_bytes) {
  return ".version 7.0\n.target sm_52\n.address_size 64\n"
         ".visible .global .align 4 .u32 small = 7;\n"
         ".visible .global .align 16 .b8 large[" +
         std::to_string(large_bytes) +
         "];\n"
         ".visible .global .align 4 .u32 last = 9;\n";
}

struct Memory {
  CUdeviceptr base;
  size_t bytes;
};

// Sets a word at `offset`, reads it back, and asks what lies there.
void Use(const Memory& memory, size_t offset, unsigned value) {
  const CUdeviceptr at = memory.base + offset / 4 * 4;
  CHECK_DRIVER(cuMemsetD32(at, value, 1));
  unsigned read = 0;
  CHECK_DRIVER(cuMemcpyDtoH(&read, at, sizeof(read)));
  EXPECT_EQ(read, value);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CHECK_DRIVER(cuMemGetAddressRange(&base, &bytes, at));
  EXPECT_EQ(base, memory.base);
  EXPECT_EQ(bytes, memory.bytes);
}

Memory Variable(CUmodule module, const char* name) {
  Memory variable{};
  CHECK_DRIVER(cuModuleGetGlobal(&variable.base, &variable.bytes, module, name));
  return variable;
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  std::mt19937 random(1);
  for (int i = 0; i < kModules; ++i) {
    const size_t large_bytes = (1 + random() % 4) * kMebibyte;
    CUmodule module = nullptr;
    CHECK_DRIVER(cuModuleLoadData(&module, Ptx(large_bytes).c_str()));
    const Memory large = Variable(module, "large");
    EXPECT_EQ(large.bytes, large_bytes);
    Use(Variable(module, "small"), 0, 1);
    Use(Variable(module, "last"), 0, 2);
    for (int use = 0; use < 4; ++use) Use(large, random() % (large_bytes - 4), random());
    if (i % 8 == 0) {
      const size_t bytes = 1 + random() % (8 * kMebibyte);
      Memory pooled{0, bytes}, block{0, bytes};
      CHECK_DRIVER(cuMemAllocAsync(&pooled.base, bytes, nullptr));
      CHECK_DRIVER(cuMemAlloc(&block.base, bytes));
      if (bytes >= 4) {
        Use(pooled, random() % (bytes - 3), 3);
        Use(block, random() % (bytes - 3), 4);
      }
      CHECK_DRIVER(cuMemFreeAsync(pooled.base, nullptr));
      CHECK_DRIVER(cuMemFree(block.base));
    }
    CHECK_DRIVER(cuModuleUnload(module));
    unsigned type = 0;
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, large.base), CUDA_ERROR_INVALID_VALUE);
  }
  std::printf("ok\n");
}
