#include "tests/server/emulator/driver/driver_fixture.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tessera {
namespace {

const char* DriverPath() {
  const char* path = getenv("TESSERA_TEST_DRIVER");
  return path != nullptr ? path : EMULATOR_LIBRARY;
}

size_t FreeBytes() {
  size_t free = 0, total = 0;
  EXPECT_CU(cu(MemGetInfo_v2)(&free, &total));
  return free;
}

size_t free_at_start = 0;

}  // namespace

bool Emulated() { return getenv("TESSERA_TEST_DRIVER") == nullptr; }

void* DriverSymbol(const char* name) {
  static void* library = [] {
    if (Emulated()) {
      setenv("TESSERA_EMULATOR_DEVICES", "2", 0);
      setenv("TESSERA_EMULATOR_MEMORY_MIB", "256", 0);
      setenv("TESSERA_EMULATOR_DELAY_US", "200", 0);
    }
    return dlopen(DriverPath(), RTLD_NOW | RTLD_LOCAL);
  }();
  void* symbol = library != nullptr ? dlsym(library, name) : nullptr;
  if (symbol == nullptr) {
    fprintf(stderr, "%s has no %s: %s\n", DriverPath(), name, library == nullptr ? dlerror() : "");
    abort();
  }
  return symbol;
}

const std::string& KernelText() {
  static const std::string text = [] {
    std::ifstream file(KERNEL_DIRECTORY "/basic.ptx");
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }();
  return text;
}

void DriverTest::SetUp() {
  ASSERT_CU(cu(Init)(0));
  ASSERT_CU(cu(DeviceGet)(&device_, 0));
  ASSERT_CU(cu(CtxCreate_v2)(&context_, 0, device_));
  if (free_at_start == 0) free_at_start = FreeBytes();
}

void DriverTest::TearDown() {
  if (context_ == nullptr) return;
  if (!Emulated() && failed_) return;  // on a real device the process is over
  if (!failed_) {
    EXPECT_CU(cu(CtxSynchronize)());
  }
  EXPECT_CU(cu(CtxDestroy_v2)(context_));
  if (!Emulated()) return;
  // A context's end frees everything that was its own.
  CUcontext probe = nullptr;
  ASSERT_CU(cu(CtxCreate_v2)(&probe, 0, device_));
  EXPECT_EQ(free_at_start, FreeBytes());
  EXPECT_CU(cu(CtxDestroy_v2)(probe));
}

}  // namespace tessera
