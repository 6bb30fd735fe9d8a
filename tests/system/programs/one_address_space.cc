// One address space: no device pointer equals an address this process maps, whatever was mapped before; a pinned pointer
// means the same thing to a kernel; copies, sets and pointer questions agree about what lies where.
#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "check.h"

#define EXPECT_RESULT(call, expected) EXPECT_EQ(static_cast<int>(call), static_cast<int>(expected))

static const char* const kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 41;
.visible .entry add_one(.param .u64 data, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r4, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra done;
  mul.wide.u32 %rd2, %r4, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.u32 %r5, [%rd3];
  add.u32 %r5, %r5, 1;
  st.u32 [%rd3], %r5;
done:
  ret;
}
)";

// True when some page of the range holds a mapping of this process that it could touch.
static bool Mapped(uint64_t address, size_t bytes) {
  for (uint64_t page = address & ~uint64_t{4095}; page < address + bytes; page += 4096) {
    unsigned char resident;
    if (mincore(reinterpret_cast<void*>(page), 4096, &resident) != 0) continue;  // nothing there
    // Something is: our own reservation cannot be read, everything else would show up in its first byte.
    FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    bool usable = false;
    while (std::fgets(line, sizeof(line), maps)) {
      unsigned long long from, to;
      char permissions[8];
      if (std::sscanf(line, "%llx-%llx %7s", &from, &to, permissions) == 3 && page >= from && page < to) {
        usable = std::strncmp(permissions, "---", 3) != 0;
      }
    }
    std::fclose(maps);
    if (usable) return true;
  }
  return false;
}

static void FillUsualPlaces() {
  // Where programs, libraries and drivers put things when nothing keeps them from it.
  for (uint64_t base : {0x10000000ull, 0x200000000ull, 0x300000000ull, 0x7f0000000000ull, 0x600000000000ull}) {
    for (int i = 0; i < 64; ++i) {
      mmap(reinterpret_cast<void*>(base + i * 0x4000000ull), 65536, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    }
  }
}

static void ManyBlocks() {
  std::mt19937_64 random(3);
  struct Block {
    uint64_t address;
    size_t bytes;
    bool pinned;
    unsigned char value;
  };
  std::vector<Block> live;
  int checked = 0;
  for (int step = 0; step < 2000; ++step) {
    if (live.size() < 20 || random() % 3 != 0) {
      Block block{0, 1 + random() % (random() % 16 == 0 ? 3000000 : 20000), random() % 4 == 0,
                  static_cast<unsigned char>(random())};
      if (block.pinned) {
        void* pointer;
        CHECK_DRIVER(cuMemHostAlloc(&pointer, block.bytes, 0));
        block.address = reinterpret_cast<uint64_t>(pointer);
        std::memset(pointer, block.value, block.bytes);
        EXPECT_EQ(Mapped(block.address, 1), true);
      } else {
        CUdeviceptr pointer;
        CHECK_DRIVER(cuMemAlloc(&pointer, block.bytes));
        block.address = pointer;
        CHECK_DRIVER(cuMemsetD8(pointer, block.value, block.bytes));
        if (++checked % 50 == 0) EXPECT_EQ(Mapped(block.address, block.bytes), false);
      }
      for (const Block& other : live) {
        EXPECT_EQ(block.address < other.address + other.bytes && other.address < block.address + block.bytes, false);
      }
      CUdeviceptr base;
      size_t size;
      CHECK_DRIVER(cuMemGetAddressRange(&base, &size, block.address + block.bytes / 2));
      EXPECT_EQ(base == block.address && size == block.bytes, true);
      live.push_back(block);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const Block block = live.back();
      live.pop_back();
      std::vector<unsigned char> out(block.bytes);
      CHECK_DRIVER(cuMemcpy(reinterpret_cast<CUdeviceptr>(out.data()), block.address, block.bytes));
      for (unsigned char byte : out) EXPECT_EQ(byte, block.value);
      if (block.pinned) {
        CHECK_DRIVER(cuMemFreeHost(reinterpret_cast<void*>(block.address)));
      } else {
        CHECK_DRIVER(cuMemFree(block.address));
        EXPECT_RESULT(cuMemFree(block.address), CUDA_ERROR_INVALID_VALUE);
      }
    }
  }
  for (const Block& block : live) {
    if (block.pinned) {
      CHECK_DRIVER(cuMemFreeHost(reinterpret_cast<void*>(block.address)));
    } else {
      CHECK_DRIVER(cuMemFree(block.address));
    }
  }
}

static void KernelsReachPinnedMemory(CUmodule module) {
  CUfunction add_one;
  CHECK_DRIVER(cuModuleGetFunction(&add_one, module, "add_one"));
  const unsigned n = 5000;
  unsigned* pinned;
  CHECK_DRIVER(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), n * sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP));
  CUdeviceptr device_view;
  CHECK_DRIVER(cuMemHostGetDevicePointer(&device_view, pinned, 0));
  EXPECT_EQ(device_view == reinterpret_cast<CUdeviceptr>(pinned), true);
  for (unsigned i = 0; i < n; ++i) pinned[i] = i * 3;
  void* arguments[] = {&pinned, const_cast<unsigned*>(&n)};
  CHECK_DRIVER(cuLaunchKernel(add_one, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  for (unsigned i = 0; i < n; ++i) EXPECT_EQ(pinned[i], i * 3 + 1);
  CHECK_DRIVER(cuMemFreeHost(pinned));

  CUdeviceptr counter;
  size_t bytes;
  CHECK_DRIVER(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  EXPECT_EQ(bytes, sizeof(unsigned));
  EXPECT_EQ(Mapped(counter, bytes), false);
  unsigned value = 0;
  CHECK_DRIVER(cuMemcpyDtoH(&value, counter, sizeof(value)));
  EXPECT_EQ(value, 41u);
  value = 7;
  CHECK_DRIVER(cuMemcpyHtoD(counter, &value, sizeof(value)));
  value = 0;
  CHECK_DRIVER(cuMemcpyDtoH(&value, counter, sizeof(value)));
  EXPECT_EQ(value, 7u);
}

static void PoolMemoryIsReserved() {
  CUdeviceptr pointer;
  CHECK_DRIVER(cuMemAllocAsync(&pointer, 100000, nullptr));
  EXPECT_EQ(Mapped(pointer, 100000), false);
  CHECK_DRIVER(cuMemsetD8Async(pointer, 9, 100000, nullptr));
  std::vector<unsigned char> out(100000);
  CHECK_DRIVER(cuMemcpyDtoHAsync(out.data(), pointer, out.size(), nullptr));
  CHECK_DRIVER(cuStreamSynchronize(nullptr));
  for (unsigned char byte : out) EXPECT_EQ(byte, 9);
  CHECK_DRIVER(cuMemFreeAsync(pointer, nullptr));
  EXPECT_RESULT(cuMemFreeAsync(pointer, nullptr), CUDA_ERROR_INVALID_VALUE);
}

static void VirtualMemory(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  size_t granule;
  CHECK_DRIVER(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr range;
  CHECK_DRIVER(cuMemAddressReserve(&range, 4 * granule, 0, 0, 0));
  EXPECT_EQ(Mapped(range, 4 * granule), false);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle parts[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_DRIVER(cuMemCreate(&parts[i], granule, &properties, 0));
    CHECK_DRIVER(cuMemMap(range + i * granule, granule, 0, parts[i], 0));
    CHECK_DRIVER(cuMemSetAccess(range + i * granule, granule, &access, 1));
  }
  // A copy across both mappings, and none beyond them.
  std::vector<unsigned char> in(granule), out(granule);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 31 + i / 1000);
  CHECK_DRIVER(cuMemcpyHtoD(range + granule / 2, in.data(), in.size()));
  CHECK_DRIVER(cuMemcpyDtoH(out.data(), range + granule / 2, out.size()));
  EXPECT_EQ(std::equal(in.begin(), in.end(), out.begin()), true);
  EXPECT_RESULT(cuMemcpyDtoH(out.data(), range + granule + 1, granule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemFree(range), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(range, 4 * granule), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemUnmap(range, 2 * granule));
  for (CUmemGenericAllocationHandle part : parts) CHECK_DRIVER(cuMemRelease(part));
  CHECK_DRIVER(cuMemAddressFree(range, 4 * granule));
}

static void QuestionsAndMistakes() {
  CUdeviceptr block;
  CHECK_DRIVER(cuMemAlloc(&block, 1000));
  std::vector<unsigned char> host(4096);
  const auto pageable = reinterpret_cast<CUdeviceptr>(host.data());
  unsigned type = 0;
  CHECK_DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 999));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_RESULT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pageable), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  int ordinal = 5;
  void* answers[] = {&type, &ordinal};
  CHECK_DRIVER(cuPointerGetAttributes(2, attributes, answers, pageable));
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(ordinal, -2);
  CHECK_DRIVER(cuPointerGetAttributes(2, attributes, answers, block));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(ordinal, 0);

  EXPECT_RESULT(cuMemcpyHtoD(block, host.data(), 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpyHtoDAsync(block + 500, host.data(), 501, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpyDtoH(host.data(), block, 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpyHtoD(pageable, host.data() + 2048, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemsetD8(block, 1, 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemsetD32(block + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemsetD8(pageable, 1, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemFree(block + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemFree(pageable), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemFree(0), CUDA_SUCCESS);
  CUdeviceptr none;
  EXPECT_RESULT(cuMemAlloc(&none, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAlloc(&none, size_t{1} << 45), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_DRIVER(cuMemFree(block));

  // Registered memory: copied like any other, known as host memory, not replaced.
  CHECK_DRIVER(cuMemHostRegister(host.data(), host.size(), 0));
  EXPECT_RESULT(cuMemHostRegister(host.data(), host.size(), 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK_DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pageable));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_HOST});
  CHECK_DRIVER(cuMemHostUnregister(host.data()));
  EXPECT_RESULT(cuMemHostUnregister(host.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

// A box with odd offsets in every direction, host to device to host, against a loop.
static void Boxes() {
  const size_t width = 301, height = 23, depth = 5, pitch = 333, rows = 29;
  std::vector<unsigned char> in(pitch * rows * (depth + 2)), out(in.size(), 0);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 13 + i / 777);
  CUdeviceptr device;
  size_t device_pitch;
  const size_t device_rows = 31;
  CHECK_DRIVER(cuMemAllocPitch(&device, &device_pitch, width + 20, device_rows * (depth + 1), 4));
  CUDA_MEMCPY3D up{};
  up.srcMemoryType = CU_MEMORYTYPE_HOST;
  up.srcHost = in.data();
  up.srcPitch = pitch;
  up.srcHeight = rows;
  up.srcXInBytes = 7;
  up.srcY = 3;
  up.srcZ = 1;
  up.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  up.dstDevice = device;
  up.dstPitch = device_pitch;
  up.dstHeight = device_rows;
  up.dstXInBytes = 5;
  up.dstY = 2;
  up.dstZ = 1;
  up.WidthInBytes = width;
  up.Height = height;
  up.Depth = depth;
  CHECK_DRIVER(cuMemcpy3D(&up));
  CUDA_MEMCPY3D down{};
  down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  down.srcDevice = device;
  down.srcPitch = device_pitch;
  down.srcHeight = device_rows;
  down.srcXInBytes = up.dstXInBytes;
  down.srcY = up.dstY;
  down.srcZ = up.dstZ;
  down.dstMemoryType = CU_MEMORYTYPE_HOST;
  down.dstHost = out.data();
  down.dstPitch = pitch;
  down.dstHeight = rows;
  down.dstXInBytes = 11;
  down.dstY = 4;
  down.dstZ = 2;
  down.WidthInBytes = width;
  down.Height = height;
  down.Depth = depth;
  CHECK_DRIVER(cuMemcpy3D(&down));
  for (size_t z = 0; z < depth + 2; ++z) {
    for (size_t y = 0; y < rows; ++y) {
      for (size_t x = 0; x < pitch; ++x) {
        const bool inside = x >= 11 && x < 11 + width && y >= 4 && y < 4 + height && z >= 2 && z < 2 + depth;
        const unsigned char expected =
            inside ? in[((z - 2 + 1) * rows + y - 4 + 3) * pitch + x - 11 + 7] : static_cast<unsigned char>(0);
        EXPECT_EQ(out[(z * rows + y) * pitch + x], expected);
      }
    }
  }
  down.srcPitch = width - 1;
  EXPECT_RESULT(cuMemcpy3D(&down), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemFree(device));
}

int main() {
  FillUsualPlaces();
  CHECK_DRIVER(cuInit(0));
  CUdevice device;
  CUcontext context;
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CUmodule module;
  CHECK_DRIVER(cuModuleLoadData(&module, kPtx));
  ManyBlocks();
  KernelsReachPinnedMemory(module);
  PoolMemoryIsReserved();
  VirtualMemory(device);
  QuestionsAndMistakes();
  Boxes();
  CHECK_DRIVER(cuModuleUnload(module));
  CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
  std::puts("ok");
}
