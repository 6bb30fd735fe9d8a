// Reservations of address space: as many as a framework with one large reservation per stream makes, what a reservation
// may ask for, and that other memory does not mind.
//   reservations          all of it that is the same natively
//   reservations full     with no address space left (natively pools have none then)
//   reservations limited  in a process that may have 1 TiB of addresses in all
#include <cuda.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

#define EXPECT_RESULT(call, expected) EXPECT_EQ(static_cast<int>(call), static_cast<int>(expected))

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30, kTiB = uint64_t{1} << 40;
constexpr uint64_t kLarge = 158 * kGiB;
constexpr size_t kMapped = 4 * kMiB;

CUcontext context;

CUdeviceptr Reserve(uint64_t bytes, uint64_t alignment = 0, uint64_t wish = 0) {
  CUdeviceptr address = 0;
  CHECK_DRIVER(cuMemAddressReserve(&address, bytes, alignment, wish, 0));
  return address;
}

CUresult TryReserve(uint64_t bytes, uint64_t alignment = 0, uint64_t wish = 0) {
  CUdeviceptr address = 0;
  const CUresult result = cuMemAddressReserve(&address, bytes, alignment, wish, 0);
  if (result == CUDA_SUCCESS) CHECK_DRIVER(cuMemAddressFree(address, bytes));
  return result;
}

void MapAt(CUdeviceptr address, size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle physical;
  CHECK_DRIVER(cuMemCreate(&physical, bytes, &properties, 0));
  CHECK_DRIVER(cuMemMap(address, bytes, 0, physical, 0));
  CHECK_DRIVER(cuMemRelease(physical));
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK_DRIVER(cuMemSetAccess(address, bytes, &access, 1));
}

void ExpectBytes(CUdeviceptr address, size_t bytes, unsigned char value) {
  std::vector<unsigned char> out(bytes);
  CHECK_DRIVER(cuMemcpyDtoH(out.data(), address, bytes));
  for (const unsigned char byte : out) EXPECT_EQ(byte, value);
}

// Memory of every kind, each with an address of its own. `pools`: under a limit of address space the driver in a process has
// no room for one.
void OtherMemoryWorks(bool pools) {
  constexpr size_t kBytes = 64 * kMiB;
  CUdeviceptr block, pooled;
  void* pinned;
  CHECK_DRIVER(cuMemAlloc(&block, kBytes));
  CHECK_DRIVER(cuMemHostAlloc(&pinned, kBytes, 0));
  CHECK_DRIVER(pools ? cuMemAllocAsync(&pooled, kBytes, nullptr) : cuMemAlloc(&pooled, kBytes));
  std::memset(pinned, 3, kBytes);
  CHECK_DRIVER(cuMemsetD8Async(block, 4, kBytes, nullptr));
  CHECK_DRIVER(cuMemcpyHtoDAsync(pooled, pinned, kBytes, nullptr));
  ExpectBytes(block, kBytes, 4);
  ExpectBytes(pooled, kBytes, 3);
  CHECK_DRIVER(pools ? cuMemFreeAsync(pooled, nullptr) : cuMemFree(pooled));
  CHECK_DRIVER(cuMemFreeHost(pinned));
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(cuCtxSynchronize());
}

// 400 reservations that are larger than the device each, in every one memory that is used.
void Many() {
  constexpr int kCount = 400, kMappedAtOnce = 24;
  const auto place = [](CUdeviceptr address, int i) { return address + i % 3 * kMapped; };
  std::vector<CUdeviceptr> all;
  for (int i = 0; i < kCount; ++i) {
    all.push_back(Reserve(kLarge));
    MapAt(place(all[i], i), kMapped);
    CHECK_DRIVER(cuMemsetD8(place(all[i], i), static_cast<unsigned char>(i), kMapped));
    if (i < kMappedAtOnce) continue;
    const int old = i - kMappedAtOnce;
    ExpectBytes(place(all[old], old) + kMapped - 100, 100, static_cast<unsigned char>(old));
    CHECK_DRIVER(cuMemUnmap(place(all[old], old), kMapped));
  }
  OtherMemoryWorks(true);
  for (int i = kCount - kMappedAtOnce; i < kCount; ++i) {
    ExpectBytes(place(all[i], i), 100, static_cast<unsigned char>(i));
    EXPECT_RESULT(cuMemAddressFree(all[i], kLarge), CUDA_ERROR_INVALID_VALUE);  // something is mapped in it
    CHECK_DRIVER(cuMemUnmap(place(all[i], i), kMapped));
  }
  // Their addresses are given back, in any order, and there again.
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> sorted(all);
    std::sort(sorted.begin(), sorted.end());
    for (int i = 1; i < kCount; ++i) EXPECT_EQ(sorted[i] - sorted[i - 1] >= kLarge, true);
    std::shuffle(all.begin(), all.end(), std::mt19937(round));
    for (const CUdeviceptr address : all) CHECK_DRIVER(cuMemAddressFree(address, kLarge));
    for (CUdeviceptr& address : all) address = Reserve(kLarge);
  }
  for (const CUdeviceptr address : all) CHECK_DRIVER(cuMemAddressFree(address, kLarge));
}

void WhatMayBeAskedFor() {
  CUdeviceptr address = 0;
  EXPECT_RESULT(cuMemAddressReserve(nullptr, 2 * kMiB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{65536}, kMiB, 2 * kMiB + 65536, 3 * kMiB}) {
    EXPECT_RESULT(TryReserve(bytes), CUDA_ERROR_INVALID_VALUE);
  }
  for (const uint64_t bytes : {2 * kMiB, 62 * kMiB, 64 * kMiB, kTiB, 16 * kTiB}) EXPECT_RESULT(TryReserve(bytes), CUDA_SUCCESS);
  for (const uint64_t bytes : {120 * kTiB, 128 * kTiB, 256 * kTiB, uint64_t{1} << 63, ~uint64_t{0} - 2 * kMiB + 1}) {
    EXPECT_RESULT(TryReserve(bytes), CUDA_ERROR_OUT_OF_MEMORY);
  }
  for (const uint64_t bytes : {2 * kMiB, 128 * kMiB}) {
    for (const uint64_t alignment : {uint64_t{3}, 3 * kMiB, 6 * kMiB, uint64_t{1} << 62, uint64_t{1} << 63}) {
      EXPECT_RESULT(TryReserve(bytes, alignment), CUDA_ERROR_INVALID_VALUE);
    }
    for (const uint64_t alignment : {128 * kTiB, 256 * kTiB, uint64_t{1} << 57}) {
      EXPECT_RESULT(TryReserve(bytes, alignment), CUDA_ERROR_OUT_OF_MEMORY);
    }
    for (const uint64_t alignment : {uint64_t{1}, uint64_t{4096}, uint64_t{65536}, 2 * kMiB, 4 * kMiB, kGiB, kTiB, 16 * kTiB}) {
      address = Reserve(bytes, alignment);
      EXPECT_EQ(address % alignment, 0u);
      CHECK_DRIVER(cuMemAddressFree(address, bytes));
    }
  }
}

void Wishes() {
  constexpr uint64_t kFree = 0x620000000000;
  for (const uint64_t bytes : {32 * kMiB, 64 * kMiB, 66 * kMiB, kGiB, kLarge}) {
    const CUdeviceptr address = Reserve(bytes, 0, kFree);
    EXPECT_EQ(address, kFree);
    // Taken, wholly or in part: somewhere else.
    const CUdeviceptr other = Reserve(bytes, 0, kFree);
    EXPECT_EQ(other >= address + bytes || other + bytes <= address, true);
    CHECK_DRIVER(cuMemAddressFree(other, bytes));
    CHECK_DRIVER(cuMemAddressFree(address, bytes));
  }
  const CUdeviceptr aligned = Reserve(4 * kGiB, kTiB, kFree);
  EXPECT_EQ(aligned, kFree);
  CHECK_DRIVER(cuMemAddressFree(aligned, 4 * kGiB));
  EXPECT_RESULT(TryReserve(4 * kGiB, kTiB, kFree + 4 * kGiB), CUDA_ERROR_INVALID_VALUE);
  for (const uint64_t off : {uint64_t{0x123}, uint64_t{4096}, uint64_t{65536}, kMiB}) {
    EXPECT_RESULT(TryReserve(4 * kGiB, 0, kFree + off), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_RESULT(TryReserve(4 * kGiB, 0, uint64_t{0x900000000000}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_RESULT(TryReserve(4 * kGiB, 0, uint64_t{0} - 4 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_RESULT(TryReserve(2 * kGiB, 0, 128 * kTiB - 2 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_RESULT(TryReserve(200 * kTiB, 0, 65536), CUDA_ERROR_INVALID_VALUE);
  // Between two multiples of 32 MiB: at the next one.
  const CUdeviceptr rounded = Reserve(32 * kMiB, 0, kFree + 2 * kMiB);
  EXPECT_EQ(rounded, kFree + 32 * kMiB);
  CHECK_DRIVER(cuMemAddressFree(rounded, 32 * kMiB));
  // Memory of the program's own, at the beginning and in the middle.
  void* const own = mmap(reinterpret_cast<void*>(kFree), 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_EQ(own == reinterpret_cast<void*>(kFree), true);
  *static_cast<char*>(own) = 7;
  for (const uint64_t wish : {kFree, kFree - kLarge / 2}) {
    const CUdeviceptr address = Reserve(kLarge, 0, wish & ~(2 * kMiB - 1));
    EXPECT_EQ(address + kLarge <= kFree || address > kFree, true);
    CHECK_DRIVER(cuMemAddressFree(address, kLarge));
  }
  EXPECT_EQ(*static_cast<char*>(own), 7);
  munmap(own, 4096);
  const CUdeviceptr again = Reserve(kLarge, 0, kFree);
  EXPECT_EQ(again, kFree);
  CHECK_DRIVER(cuMemAddressFree(again, kLarge));
}

// A range that grows: what follows is reserved behind it, and memory is mapped and used across the border.
void Growth() {
  const CUdeviceptr first = Reserve(kGiB, 0, 0x630000000000);
  const CUdeviceptr second = Reserve(kGiB, 0, first + kGiB);
  EXPECT_EQ(second, first + kGiB);
  MapAt(second - kMapped, kMapped);
  MapAt(second, kMapped);
  CHECK_DRIVER(cuMemsetD8(second - kMapped, 9, 2 * kMapped));
  ExpectBytes(second - kMapped, 2 * kMapped, 9);
  CHECK_DRIVER(cuMemUnmap(second - kMapped, 2 * kMapped));
  MapAt(second - kMapped / 2, kMapped);
  CHECK_DRIVER(cuMemsetD8(second - kMapped / 2, 8, kMapped));
  ExpectBytes(second - kMapped / 2, kMapped, 8);
  CHECK_DRIVER(cuMemUnmap(second - kMapped / 2, kMapped));
  CHECK_DRIVER(cuMemAddressFree(first, kGiB));
  CHECK_DRIVER(cuMemAddressFree(second, kGiB));
}

void Mistakes() {
  const CUdeviceptr range = Reserve(4 * kGiB, 0, 0x640000000000);
  const CUdeviceptr next = Reserve(4 * kGiB, 0, range + 4 * kGiB);
  EXPECT_EQ(next, range + 4 * kGiB);
  EXPECT_RESULT(cuMemAddressFree(range, 2 * kGiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(range + kGiB, 3 * kGiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(range, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(range, 5 * kGiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(range, 8 * kGiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(0, kGiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(0x650000000000, kGiB), CUDA_ERROR_INVALID_VALUE);
  // Reserved, and no memory.
  unsigned type = 0;
  EXPECT_RESULT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, range), CUDA_ERROR_INVALID_VALUE);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_RESULT(cuMemSetAccess(range, 2 * kMiB, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemUnmap(range, 2 * kMiB), CUDA_SUCCESS);  // nothing is mapped there afterwards
  EXPECT_RESULT(cuMemUnmap(0x650000000000, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  // Reserved addresses are no memory of any kind.
  CUdeviceptr base = 0;
  size_t bytes = 0;
  unsigned char buffer[16] = {};
  CUmemGenericAllocationHandle retained;
  EXPECT_RESULT(cuMemGetAddressRange(&base, &bytes, range), CUDA_ERROR_NOT_FOUND);
  EXPECT_RESULT(cuMemsetD8(range, 1, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemsetD8Async(range, 1, 16, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpyHtoD(range, buffer, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpyHtoDAsync(range, buffer, 16, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpyDtoH(buffer, range, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemFree(range), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemFreeAsync(range, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(range)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemHostRegister(reinterpret_cast<void*>(range), 65536, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuCtxSynchronize());
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle physical;
  CHECK_DRIVER(cuMemCreate(&physical, kMapped, &properties, 0));
  EXPECT_RESULT(cuMemMap(0x650000000000, kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemMap(range + 65536, kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr block;
  CHECK_DRIVER(cuMemAlloc(&block, 64 * kMiB));
  EXPECT_RESULT(cuMemMap(block & ~(2 * kMiB - 1), kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(block, 64 * kMiB), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(cuMemMap(range, kMapped, 0, physical, 0));
  EXPECT_RESULT(cuMemMap(range, kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemMap(range + 2 * kMiB, kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemSetAccess(range, 4 * kMapped, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(range, 4 * kGiB), CUDA_ERROR_INVALID_VALUE);
  // A mapping is unmapped whole, with whatever is around it.
  for (const uint64_t bytes : {uint64_t{0}, kMiB, 2 * kMiB, 3 * kMiB}) {
    EXPECT_RESULT(cuMemUnmap(range, bytes), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_RESULT(cuMemUnmap(range + 65536, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemUnmap(range + 2 * kMiB, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemUnmap(range + 2 * kMiB, 64 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemUnmap(range - 2 * kMiB, 64 * kMiB), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemUnmap(range, 4 * kMapped));
  CHECK_DRIVER(cuMemMap(range, kMapped, 0, physical, 0));
  CHECK_DRIVER(cuMemMap(next, kMapped, 0, physical, 0));
  CHECK_DRIVER(cuMemUnmap(range, 8 * kGiB + 2 * kMiB));  // both, and what is beyond
  EXPECT_RESULT(cuMemSetAccess(next, kMapped, &access, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemAddressFree(next, 4 * kGiB));
  CHECK_DRIVER(cuMemAddressFree(range, 4 * kGiB));
  EXPECT_RESULT(cuMemAddressFree(range, 4 * kGiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemMap(range, kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemRelease(physical));
}

// Threads that reserve and free, beside some that map memory of the program's own: nobody's range is anybody else's.
void Threads() {
  struct Taken {
    uint64_t base, bytes;
  };
  static std::mutex mutex;
  static std::vector<Taken> taken;
  const auto enter = [](uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex);
    for (const Taken& other : taken) EXPECT_EQ(base < other.base + other.bytes && other.base < base + bytes, false);
    taken.push_back({base, bytes});
  };
  const auto leave = [](uint64_t base) {
    const std::lock_guard lock(mutex);
    std::erase_if(taken, [base](const Taken& range) { return range.base == base; });
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([t, enter, leave] {
      CHECK_DRIVER(cuCtxSetCurrent(context));
      std::mt19937_64 random(t);
      for (int i = 0; i < 150; ++i) {
        const uint64_t bytes = random() % 3 == 0 ? (1 + random() % 4000) * kGiB : (1 + random() % 40) * 2 * kMiB;
        if (t % 2 == 0) {
          const CUdeviceptr address = Reserve(bytes);
          enter(address, bytes);
          if (i % 8 == 0) {
            MapAt(address, 2 * kMiB);
            CHECK_DRIVER(cuMemsetD8(address, static_cast<unsigned char>(t), 2 * kMiB));
            ExpectBytes(address + kMiB, 10, static_cast<unsigned char>(t));
            CHECK_DRIVER(cuMemUnmap(address, 2 * kMiB));
          }
          leave(address);
          CHECK_DRIVER(cuMemAddressFree(address, bytes));
        } else {
          void* const wish = reinterpret_cast<void*>(0x100000000000 + random() % 0x500000000000 / kGiB * kGiB);
          void* const own = mmap(wish, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          EXPECT_EQ(own != MAP_FAILED, true);
          enter(reinterpret_cast<uint64_t>(own), 4096);
          std::memset(own, 1, 4096);
          leave(reinterpret_cast<uint64_t>(own));
          munmap(own, 4096);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ManySmall() {
  std::vector<CUdeviceptr> all;
  for (int i = 0; i < 1000; ++i) all.push_back(Reserve((1 + i % 5) * 2 * kMiB));
  std::vector<std::pair<CUdeviceptr, uint64_t>> sorted;
  for (int i = 0; i < 1000; ++i) sorted.emplace_back(all[i], (1 + i % 5) * 2 * kMiB);
  std::sort(sorted.begin(), sorted.end());
  for (int i = 1; i < 1000; ++i) EXPECT_EQ(sorted[i].first >= sorted[i - 1].first + sorted[i - 1].second, true);
  for (int i = 0; i < 1000; i += 100) {
    MapAt(all[i], 2 * kMiB);
    CHECK_DRIVER(cuMemsetD8(all[i], 5, 2 * kMiB));
    ExpectBytes(all[i], 2 * kMiB, 5);
    CHECK_DRIVER(cuMemUnmap(all[i], 2 * kMiB));
  }
  for (int i = 0; i < 1000; ++i) CHECK_DRIVER(cuMemAddressFree(all[i], (1 + i % 5) * 2 * kMiB));
}

uint64_t AddressSpaceInUse() {
  uint64_t pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) std::exit(1);
  std::fclose(file);
  return pages * 4096;
}

// Reservations count as address space of the process: one beyond its limit is out of memory, and nothing else is.
void UnderALimit() {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit limit = before;
  const uint64_t in_use = AddressSpaceInUse();
  limit.rlim_cur = in_use + kTiB;
  EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  std::vector<CUdeviceptr> all;
  CUdeviceptr address = 0;
  CUresult result = CUDA_SUCCESS;
  while (all.size() < 10 && (result = cuMemAddressReserve(&address, kLarge, 0, 0, 0)) == CUDA_SUCCESS) all.push_back(address);
  EXPECT_RESULT(result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(all.size(), 6u);
  OtherMemoryWorks(false);
  CHECK_DRIVER(cuMemAddressFree(all[3], kLarge));
  all[3] = Reserve(kLarge);
  for (const CUdeviceptr reserved : all) CHECK_DRIVER(cuMemAddressFree(reserved, kLarge));
  EXPECT_EQ(AddressSpaceInUse() < in_use + kTiB, true);
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

void Full() {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::pair<CUdeviceptr, uint64_t>> all;
    size_t large = 0;
    for (uint64_t bytes = kLarge; bytes >= 64 * kMiB; bytes = bytes / 2 & ~(2 * kMiB - 1)) {
      CUdeviceptr address = 0;
      while (cuMemAddressReserve(&address, bytes, 0, 0, 0) == CUDA_SUCCESS) all.emplace_back(address, bytes);
      if (bytes == kLarge) large = all.size();
    }
    EXPECT_EQ(large >= 400, true);
    EXPECT_RESULT(TryReserve(64 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    OtherMemoryWorks(true);
    for (const auto& [address, bytes] : all) CHECK_DRIVER(cuMemAddressFree(address, bytes));
  }
}

// From the beginning of the process: there are fewer addresses for everything.
void Limited() {
  std::vector<CUdeviceptr> all;
  CUdeviceptr address = 0;
  while (all.size() < 10 && cuMemAddressReserve(&address, kLarge, 0, 0, 0) == CUDA_SUCCESS) all.push_back(address);
  EXPECT_EQ(all.size() >= 3 && all.size() <= 6, true);
  MapAt(all.back(), kMapped);
  CHECK_DRIVER(cuMemsetD8(all.back(), 6, kMapped));
  ExpectBytes(all.back(), kMapped, 6);
  CHECK_DRIVER(cuMemUnmap(all.back(), kMapped));
  OtherMemoryWorks(false);
  for (const CUdeviceptr reserved : all) CHECK_DRIVER(cuMemAddressFree(reserved, kLarge));
}

}  // namespace

int main(int argc, char** argv) {
  const bool limited = argc > 1 && std::strcmp(argv[1], "limited") == 0;
  if (limited && argc == 2) {
    const rlimit limit{kTiB, kTiB};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    execl("/proc/self/exe", argv[0], "limited", "already", nullptr);
    return 1;
  }
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  if (limited) {
    Limited();
  } else if (argc > 1) {
    Full();
  } else {
    WhatMayBeAskedFor();
    Wishes();
    Growth();
    Mistakes();
    ManySmall();
    Threads();
    UnderALimit();
    Many();
  }
  std::puts("ok");
}
