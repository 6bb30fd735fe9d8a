// Pools of host memory: one address for the program, for copies and for kernels; stream order, bounds, and another process that
// opens such memory by a descriptor.
//
// usage: host_pools [--refused: the device says that it has none, and every way to one is refused]
#include <cuda.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "pass_descriptor.h"

extern char** environ;

namespace {

constexpr int kCount = 1 << 16;
constexpr size_t kBytes = kCount * sizeof(int);

__global__ void Fill(int* values, int n, int value) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = value;
}
__global__ void Add(int* values, int n, int value) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] += value;
}
__global__ void CountOthers(const int* values, int n, int value, int* others) {
  int found = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) found += values[i] != value;
  atomicAdd(others, found);
}
__global__ void Wait(volatile int* flag) {
  while (*flag == 0) {
  }
}

// A kernel's first launch loads it, and that waits for kernels that run, natively as well.
void LoadKernels() {
  cudaFuncAttributes attributes;
  CHECK_CUDA(cudaFuncGetAttributes(&attributes, Fill));
  CHECK_CUDA(cudaFuncGetAttributes(&attributes, Add));
  CHECK_CUDA(cudaFuncGetAttributes(&attributes, CountOthers));
  CHECK_CUDA(cudaFuncGetAttributes(&attributes, Wait));
}

void ExpectAll(const int* values, int n, int value) {
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], value);
}

int DeviceAttribute(CUdevice_attribute attribute) {
  int value = -1;
  CHECK_DRIVER(cuDeviceGetAttribute(&value, attribute, 0));
  return value;
}

CUmemPoolProps Properties(CUmemLocationType type, int id, bool shareable, size_t bytes_max) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = type;
  properties.location.id = id;
  properties.handleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties.maxSize = bytes_max;
  return properties;
}

// Kernels of device 0 may use it.
void Open(CUmemoryPool pool) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK_DRIVER(cuMemPoolSetAccess(pool, &access, 1));
}

CUmemoryPool MakePool(const CUmemPoolProps& properties) {
  CUmemoryPool pool = nullptr;
  CHECK_DRIVER(cuMemPoolCreate(&pool, &properties));
  Open(pool);
  return pool;
}

uint64_t Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  uint64_t value = 0;
  CHECK_DRIVER(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

int* Allocate(CUmemoryPool pool, size_t bytes, CUstream stream) {
  CUdeviceptr address = 0;
  CHECK_DRIVER(cuMemAllocFromPoolAsync(&address, bytes, pool, stream));
  return reinterpret_cast<int*>(address);
}
void Free(int* values, CUstream stream) { CHECK_DRIVER(cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(values), stream)); }

struct Streams {
  cudaStream_t a, b;
  Streams() {
    CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  }
};

struct Flag {
  volatile int* value = nullptr;
  Flag() {
    CHECK_CUDA(cudaHostAlloc(const_cast<int**>(&value), sizeof(int), cudaHostAllocPortable));
    *value = 0;
  }
};

void CheckRefusals(bool available) {
  CUmemoryPool pool = nullptr;
  const CUresult refused = available ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  // The driver takes neither.
  const CUmemPoolProps current = Properties(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, false, 0);
  EXPECT_EQ(cuMemPoolCreate(&pool, &current), refused);
  const CUmemPoolProps shared = Properties(CU_MEM_LOCATION_TYPE_HOST, 0, true, 0);
  EXPECT_EQ(cuMemPoolCreate(&pool, &shared), refused);
  if (available) return;
  EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED), 0);
  EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED), 0);
  for (const CUmemLocationType type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
    const CUmemPoolProps properties = Properties(type, 0, false, 0);
    EXPECT_EQ(cuMemPoolCreate(&pool, &properties), refused);
    CUmemLocation location{};
    location.type = type;
    EXPECT_EQ(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED), refused);
    EXPECT_EQ(cuMemGetMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED), refused);
  }
}

// The program, kernels, copies and sets have the same memory.
void CheckUses(CUmemoryPool pool, const Streams& streams) {
  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), uint64_t{0});
  int* const values = Allocate(pool, kBytes, streams.a);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  for (int i = 0; i < kCount; ++i) values[i] = 5;
  Add<<<1, 256, 0, streams.a>>>(values, kCount, 2);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  ExpectAll(values, kCount, 7);

  int* device = nullptr;
  CHECK_CUDA(cudaMalloc(&device, kBytes));
  CHECK_DRIVER(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(device), reinterpret_cast<CUdeviceptr>(values), kBytes, streams.a));
  Add<<<1, 256, 0, streams.a>>>(device, kCount, 10);
  CHECK_CUDA(cudaMemsetAsync(values, 0, kBytes, streams.a));
  CHECK_CUDA(cudaMemcpyAsync(values, device, kBytes / 2, cudaMemcpyDefault, streams.a));
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  ExpectAll(values, kCount / 2, 17);
  ExpectAll(values + kCount / 2, kCount / 2, 0);
  CHECK_CUDA(cudaFree(device));

  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= kBytes, true);
  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= kBytes, true);
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(values);
  CUmemoryPool of = nullptr;
  CHECK_DRIVER(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
  EXPECT_EQ(of == pool, true);
  void* host = nullptr;
  CHECK_DRIVER(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
  EXPECT_EQ(host == values, true);
  EXPECT_EQ(cuMemFreeAsync(address + 8, streams.a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(values) != CUDA_SUCCESS, true);
  values[0] = 1;  // it is still there
  Free(values, streams.a);
  EXPECT_EQ(cuMemFreeAsync(address, streams.a), CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), uint64_t{0});
  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= kBytes, true);
}

// What is freed behind a kernel that has not ended is that kernel's until then: were it another stream's at once, the one would
// write into the other's. No call waits for the kernel, which waits for this program.
void CheckOrder(CUmemoryPool pool, const Streams& streams) {
  Flag flag;
  int wait_for_others = 0;
  CHECK_DRIVER(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &wait_for_others));
  int* const first = Allocate(pool, kBytes, streams.a);
  Wait<<<1, 1, 0, streams.a>>>(flag.value);
  Fill<<<1, 256, 0, streams.a>>>(first, kCount, 1);
  Free(first, streams.a);
  int* const other = Allocate(pool, kBytes, streams.b);
  Fill<<<1, 256, 0, streams.b>>>(other, kCount, 2);
  int* const own = Allocate(pool, kBytes, streams.a);  // in the order of the stream: the same memory may do
  Fill<<<1, 256, 0, streams.a>>>(own, kCount, 3);
  int* const large = Allocate(pool, size_t{64} << 20, streams.b);
  Fill<<<1, 256, 0, streams.b>>>(large, kCount, 4);
  // What the other stream has freed goes, or is used again, beside the kernel.
  for (int i = 0; i < 5; ++i) {
    int* const one = Allocate(pool, size_t{32} << 20, streams.b);
    Fill<<<1, 256, 0, streams.b>>>(one, kCount, 5);
    CHECK_CUDA(cudaStreamSynchronize(streams.b));
    ExpectAll(one, kCount, 5);
    Free(one, streams.b);
    CHECK_CUDA(cudaStreamSynchronize(streams.b));
  }
  EXPECT_EQ(cudaStreamQuery(streams.a), cudaErrorNotReady);
  *flag.value = 1;
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  CHECK_CUDA(cudaStreamSynchronize(streams.b));
  ExpectAll(other, kCount, 2);
  ExpectAll(own, kCount, 3);
  ExpectAll(large, kCount, 4);
  Free(other, streams.b);
  Free(own, streams.a);
  Free(large, streams.b);
}

// Blocks of many sizes come and go in two streams; each has what its stream has put there.
void CheckChurn(CUmemoryPool pool, const Streams& streams) {
  int* others = nullptr;
  CHECK_CUDA(cudaHostAlloc(&others, sizeof(int), cudaHostAllocDefault));
  *others = 0;
  struct Live {
    int *values, n, value;
    CUstream stream;
  };
  std::vector<Live> live;
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    if (live.size() < 8 && random() % 3 != 0) {
      const int n = 1 + static_cast<int>(random() % (i % 5 == 0 ? 300000 : 3000));
      const CUstream stream = random() % 2 == 0 ? streams.a : streams.b;
      live.push_back(Live{Allocate(pool, n * sizeof(int), stream), n, i, stream});
      Fill<<<1, 64, 0, stream>>>(live.back().values, n, i);
    } else if (!live.empty()) {
      const size_t which = random() % live.size();
      const Live one = live[which];
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      CountOthers<<<1, 64, 0, one.stream>>>(one.values, one.n, one.value, others);
      Free(one.values, one.stream);
    }
    if (i % 40 == 0) CHECK_CUDA(cudaStreamSynchronize(streams.a));
  }
  for (const Live& one : live) Free(one.values, one.stream);
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(*others, 0);
  CHECK_CUDA(cudaFreeHost(others));
  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), uint64_t{0});
  CHECK_DRIVER(cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), uint64_t{0});
}

void CheckBound(CUmemLocationType type, const Streams& streams) {
  constexpr size_t kMax = size_t{4} << 20;
  const CUmemoryPool pool = MakePool(Properties(type, 0, false, kMax));
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&none, size_t{64} << 20, pool, streams.a), CUDA_ERROR_OUT_OF_MEMORY);
  for (int i = 0; i < 30; ++i) {
    const CUstream stream = i % 3 == 0 ? streams.a : streams.b;
    int* const values = Allocate(pool, kMax, stream);
    Fill<<<1, 256, 0, stream>>>(values, kCount, i);
    Free(values, stream);
    if (i % 2 == 0) CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  CHECK_DRIVER(cuMemPoolDestroy(pool));
}

// A pool that is destroyed has its blocks until they are freed; that of a location cannot be destroyed.
void CheckEnds(const Streams& streams) {
  const CUmemoryPool pool = MakePool(Properties(CU_MEM_LOCATION_TYPE_HOST, 0, false, 0));
  int* const values = Allocate(pool, kBytes, streams.a);
  CHECK_DRIVER(cuMemPoolDestroy(pool));
  Fill<<<1, 256, 0, streams.a>>>(values, kCount, 9);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  ExpectAll(values, kCount, 9);
  Free(values, streams.a);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));

  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemoryPool standard = nullptr, current = nullptr;
  CHECK_DRIVER(cuMemGetDefaultMemPool(&standard, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  CHECK_DRIVER(cuMemGetMemPool(&current, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(current == standard, true);
  EXPECT_EQ(cuMemPoolDestroy(standard) != CUDA_SUCCESS, true);
  EXPECT_EQ(cuDeviceSetMemPool(0, standard) != CUDA_SUCCESS, true);
  Free(Allocate(standard, 100, streams.b), streams.b);
  CHECK_CUDA(cudaStreamSynchronize(streams.b));
}

void* AsHandle(int fd) { return reinterpret_cast<void*>(static_cast<intptr_t>(fd)); }

// The other process: adds 1 as a program, 10 in a kernel.
void Child(int socket) {
  CHECK_CUDA(cudaFree(nullptr));
  CUmemPoolPtrExportData pointer{};
  const int fd = ReceiveFd(socket, &pointer, sizeof(pointer));
  CUmemoryPool pool = nullptr;
  CHECK_DRIVER(cuMemPoolImportFromShareableHandle(&pool, AsHandle(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(fd);
  Open(pool);
  CUdeviceptr address = 0;
  CUmemPoolPtrExportData nonsense{};
  EXPECT_EQ(cuMemPoolImportPointer(&address, pool, &nonsense) != CUDA_SUCCESS, true);
  CHECK_DRIVER(cuMemPoolImportPointer(&address, pool, &pointer));
  int* const values = reinterpret_cast<int*>(address);
  ExpectAll(values, kCount, 20);
  for (int i = 0; i < kCount; ++i) values[i] += 1;
  Add<<<1, 256>>>(values, kCount, 10);
  CHECK_CUDA(cudaDeviceSynchronize());
  Free(values, nullptr);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_DRIVER(cuMemPoolDestroy(pool));
  EXPECT_EQ(write(socket, "d", 1), ssize_t{1});
}

void CheckProcesses(const Streams& streams) {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const std::string number = std::to_string(sockets[1]);
  const char* arguments[] = {"host_pools", "--child", number.c_str(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
  close(sockets[1]);

  const int node = DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  const CUmemoryPool pool = MakePool(Properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, node < 0 ? 0 : node, true, 0));
  int* const before = Allocate(pool, 1000, streams.a);
  int* const values = Allocate(pool, kBytes, streams.a);
  Fill<<<1, 256, 0, streams.a>>>(values, kCount, 20);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  int fd = -1;
  CHECK_DRIVER(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemPoolPtrExportData pointer{};
  CHECK_DRIVER(cuMemPoolExportPointer(&pointer, reinterpret_cast<CUdeviceptr>(values)));
  SendFd(sockets[0], &pointer, sizeof(pointer), fd);
  close(fd);
  char done = 0;
  EXPECT_EQ(read(sockets[0], &done, 1), ssize_t{1});
  ExpectAll(values, kCount, 31);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectAll(values, kCount, 31);  // it is this process' still
  Free(values, streams.a);
  Free(before, streams.a);
  CHECK_CUDA(cudaStreamSynchronize(streams.a));
  CHECK_DRIVER(cuMemPoolDestroy(pool));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--child") == 0) {
    Child(std::atoi(argv[2]));
    return 0;
  }
  CHECK_CUDA(cudaFree(nullptr));
  const bool available = argc < 2 || std::strcmp(argv[1], "--refused") != 0;
  CheckRefusals(available);
  if (available) {
    EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED), 1);
    EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED), 1);
    LoadKernels();
    const Streams streams;
    for (const CUmemLocationType type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
      const CUmemoryPool pool = MakePool(Properties(type, 0, false, 0));
      CheckUses(pool, streams);
      CheckOrder(pool, streams);
      CheckChurn(pool, streams);
      CHECK_DRIVER(cuMemPoolDestroy(pool));
      CheckBound(type, streams);
    }
    CheckEnds(streams);
    CheckProcesses(streams);
  }
  std::puts("ok");
  return 0;
}
