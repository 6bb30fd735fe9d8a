// Copies of several threads at once, of all kinds of host memory and of sizes around every limit (inline, piece, staging):
// every byte arrives, none of another copy, and memory that is freed while work runs is not handed out too early.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

enum class Host { kPageable, kPinned, kRegistered };

struct Buffer {
  Buffer(Host kind, size_t bytes) : kind(kind), bytes(bytes) {
    if (kind == Host::kPinned) {
      CHECK_DRIVER(cuMemHostAlloc(&data, bytes, 0));
    } else {
      memory.resize(bytes + 1);
      data = memory.data() + 1;  // as misaligned as can be
      if (kind == Host::kRegistered) CHECK_DRIVER(cuMemHostRegister(data, bytes, 0));
    }
  }
  ~Buffer() {
    if (kind == Host::kPinned) CHECK_DRIVER(cuMemFreeHost(data));
    if (kind == Host::kRegistered) CHECK_DRIVER(cuMemHostUnregister(data));
  }
  Host kind;
  size_t bytes;
  std::vector<unsigned char> memory;
  void* data = nullptr;
};

static void Fill(void* data, size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto* out = static_cast<unsigned char*>(data);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(out + i, &word, std::min<size_t>(8, bytes - i));
  }
}

static void Worker(CUcontext context, int number, int rounds) {
  CHECK_DRIVER(cuCtxSetCurrent(context));
  std::mt19937_64 random(number * 7919 + 1);
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, number % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  const size_t limits[] = {1, 4, 4096, 32 << 10, 2 << 20, 4 << 20, 9 << 20};
  for (int round = 0; round < rounds; ++round) {
    const size_t limit = limits[random() % 7];
    const size_t bytes = limit < 2 ? limit : limit + random() % 5 - 2;
    const Host from_kind = static_cast<Host>(random() % 3), to_kind = static_cast<Host>(random() % 3);
    Buffer from(from_kind, bytes), to(to_kind, bytes);
    Fill(from.data, bytes, number * 1000 + round);
    std::vector<unsigned char> expected(static_cast<unsigned char*>(from.data), static_cast<unsigned char*>(from.data) + bytes);
    CUdeviceptr a, b;
    CHECK_DRIVER(cuMemAlloc(&a, bytes));
    CHECK_DRIVER(cuMemAlloc(&b, bytes));
    const bool async = random() % 2 == 0;
    if (async) {
      CHECK_DRIVER(cuMemcpyHtoDAsync(a, from.data, bytes, stream));
      if (from_kind == Host::kPageable) std::memset(from.data, 0xEE, bytes);  // was read when the call returned
      CHECK_DRIVER(cuMemcpyDtoDAsync(b, a, bytes, stream));
      CHECK_DRIVER(cuMemcpyDtoHAsync(to.data, b, bytes, stream));
      CHECK_DRIVER(cuStreamSynchronize(stream));
    } else {
      CHECK_DRIVER(cuMemcpy(a, reinterpret_cast<CUdeviceptr>(from.data), bytes));
      CHECK_DRIVER(cuMemcpyDtoD(b, a, bytes));
      CHECK_DRIVER(cuMemcpy(reinterpret_cast<CUdeviceptr>(to.data), b, bytes));
    }
    EXPECT_EQ(std::memcmp(to.data, expected.data(), bytes), 0);

    // A free while the stream still works on the block: what is allocated next must not be reached by that work.
    CHECK_DRIVER(cuMemsetD8Async(a, 0x11, bytes, stream));
    CHECK_DRIVER(cuMemsetD8Async(a, 0x22, bytes, stream));
    CHECK_DRIVER(cuMemFree(a));
    CUdeviceptr c;
    CHECK_DRIVER(cuMemAlloc(&c, bytes));
    CHECK_DRIVER(cuMemsetD8(c, 0x33, bytes));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    std::vector<unsigned char> out(bytes);
    CHECK_DRIVER(cuMemcpyDtoH(out.data(), c, bytes));
    for (unsigned char byte : out) EXPECT_EQ(byte, 0x33);
    CHECK_DRIVER(cuMemFree(b));
    CHECK_DRIVER(cuMemFree(c));
  }
  CHECK_DRIVER(cuStreamDestroy(stream));
}

int main() {
  CHECK_DRIVER(cuInit(0));
  CUdevice device;
  CUcontext context;
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  size_t free_before, free_after, total;
  CHECK_DRIVER(cuMemGetInfo(&free_before, &total));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(Worker, context, i, 12);
  for (auto& thread : threads) thread.join();
  // More than staging holds, both ways, in one call.
  const size_t large = (size_t{150} << 20) + 12345;
  std::vector<unsigned char> in(large), out(large);
  Fill(in.data(), large, 99);
  CUdeviceptr block;
  CHECK_DRIVER(cuMemAlloc(&block, large));
  CHECK_DRIVER(cuMemcpyHtoD(block, in.data(), large));
  CHECK_DRIVER(cuMemcpyDtoH(out.data(), block, large));
  EXPECT_EQ(std::memcmp(in.data(), out.data(), large), 0);
  CHECK_DRIVER(cuMemFree(block));
  // What was freed is free again; at most a small block per thread is kept back. Other programs may use the device just now.
  for (int look = 0;; ++look) {
    CHECK_DRIVER(cuMemGetInfo(&free_after, &total));
    if (free_after + (size_t{8} << 20) >= free_before) break;
    if (look == 100) EXPECT_EQ(free_after, free_before);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
  std::puts("ok");
}
