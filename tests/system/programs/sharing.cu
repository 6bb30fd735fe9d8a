// Two processes share device memory, pools and events: cudaIpc handles as frameworks use them (a handle of the base, an offset
// beside it), shareable handles passed over a socket, and everything that must be refused.
#include <cuda.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "pass_descriptor.h"

extern char** environ;

constexpr int kCount = 1 << 20;
constexpr size_t kOffset = 4096;  // of the tensor in its allocation, in elements

struct Message {
  cudaIpcMemHandle_t memory, small, freed;
  cudaIpcEventHandle_t event;
  size_t vmm_bytes;
  cudaMemPoolPtrExportData pointer;
};

__global__ void Add(int* data, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += value;
}

static void Expect(const int* device, int n, int value) {
  std::vector<int> host(n);
  CHECK_CUDA(cudaMemcpy(host.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int one : host) EXPECT_EQ(one, value);
}

static CUdeviceptr MapAll(CUmemGenericAllocationHandle allocation, size_t bytes) {
  CUdeviceptr address;
  CHECK_DRIVER(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  CHECK_DRIVER(cuMemMap(address, bytes, 0, allocation, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK_DRIVER(cuMemSetAccess(address, bytes, &access, 1));
  return address;
}

static void Child(int socket) {
  CHECK_CUDA(cudaFree(nullptr));
  Message message;
  const int fd = ReceiveFd(socket, &message, sizeof(message));
  char kind = 0;
  const int pool_fd = ReceiveFd(socket, &kind, 1);
  void* base = nullptr;
  CHECK_CUDA(cudaIpcOpenMemHandle(&base, message.memory, cudaIpcMemLazyEnablePeerAccess));
  int* tensor = static_cast<int*>(base) + kOffset;
  // The memory's owner records the event behind a slow kernel: waiting for it must be enough.
  cudaEvent_t event;
  CHECK_CUDA(cudaIpcOpenEventHandle(&event, message.event));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamWaitEvent(stream, event, 0));
  Add<<<16, 256, 0, stream>>>(tensor, kCount, 1000);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  Expect(tensor, kCount, 1007);

  // Opened twice it is the same memory, and closed as often.
  void* again = nullptr;
  CHECK_CUDA(cudaIpcOpenMemHandle(&again, message.memory, cudaIpcMemLazyEnablePeerAccess));
  EXPECT_EQ(again == base, true);
  CHECK_CUDA(cudaIpcCloseMemHandle(again));
  cudaPointerAttributes attributes;
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, tensor));
  EXPECT_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeDevice));
  CUdeviceptr range = 0;
  size_t bytes = 0;
  CHECK_DRIVER(cuMemGetAddressRange(&range, &bytes, reinterpret_cast<CUdeviceptr>(tensor)));
  EXPECT_EQ(range == reinterpret_cast<CUdeviceptr>(base), true);
  EXPECT_EQ(bytes, (kCount + kOffset) * sizeof(int));
  EXPECT_EQ(cudaFree(base) != cudaSuccess, true);

  // A small block shares its slab with others and is found all the same.
  void* small = nullptr;
  CHECK_CUDA(cudaIpcOpenMemHandle(&small, message.small, cudaIpcMemLazyEnablePeerAccess));
  Expect(static_cast<int*>(small), 16, 31);
  CHECK_CUDA(cudaIpcCloseMemHandle(small));

  // What nobody shares (any more) cannot be opened, nor what somebody made up.
  void* none = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&none, message.freed, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess, true);
  cudaIpcMemHandle_t forged = message.memory;
  forged.reserved[20] ^= 1;
  EXPECT_EQ(cudaIpcOpenMemHandle(&none, forged, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess, true);
  std::memset(&forged, 0, sizeof(forged));
  EXPECT_EQ(cudaIpcOpenMemHandle(&none, forged, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess, true);
  cudaGetLastError();

  // A pool, and memory from it.
  cudaMemPool_t pool;
  CHECK_CUDA(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(static_cast<intptr_t>(pool_fd)),
                                                  cudaMemHandleTypePosixFileDescriptor, 0));
  close(pool_fd);
  void* pooled = nullptr;
  CHECK_CUDA(cudaMemPoolImportPointer(&pooled, pool, &message.pointer));
  Expect(static_cast<int*>(pooled), 256, 44);
  Add<<<1, 256, 0, stream>>>(static_cast<int*>(pooled), 256, 1);
  CHECK_CUDA(cudaFreeAsync(pooled, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  cudaMemPoolPtrExportData nonsense{};
  EXPECT_EQ(cudaMemPoolImportPointer(&pooled, pool, &nonsense) != cudaSuccess, true);
  cudaGetLastError();

  // A shareable handle: a descriptor that came over the socket.
  CUmemGenericAllocationHandle allocation;
  CHECK_DRIVER(cuMemImportFromShareableHandle(&allocation, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  CUdeviceptr mapped = MapAll(allocation, message.vmm_bytes);
  CHECK_DRIVER(cuMemRelease(allocation));
  Expect(reinterpret_cast<int*>(mapped), 1000, 55);
  CHECK_DRIVER(cuMemsetD32(mapped, 66, 1000));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_DRIVER(cuMemUnmap(mapped, message.vmm_bytes));
  CHECK_DRIVER(cuMemAddressFree(mapped, message.vmm_bytes));
  CHECK_CUDA(cudaIpcCloseMemHandle(base));
  EXPECT_EQ(cudaIpcCloseMemHandle(base) != cudaSuccess, true);
  cudaGetLastError();
  CHECK_CUDA(cudaEventDestroy(event));
  const char done = 'd';
  SendFd(socket, &done, 1, -1);
}

static pid_t Spawn(const char* self, const char* role, int socket) {
  const std::string number = std::to_string(socket);
  char* arguments[] = {const_cast<char*>(self), const_cast<char*>(role), const_cast<char*>(number.c_str()), nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ), 0);
  close(socket);
  return child;
}

static void Join(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Shares something and ends.
static void ShareAndEnd(int socket) {
  Message message{};
  void* memory;
  CHECK_CUDA(cudaMalloc(&memory, 1 << 20));
  CHECK_CUDA(cudaIpcGetMemHandle(&message.memory, memory));
  SendFd(socket, &message, sizeof(message), -1);
}

// What a process shared ends with it.
static void CheckThatSharesEnd(const char* self) {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  fcntl(sockets[0], F_SETFD, FD_CLOEXEC);
  const pid_t child = Spawn(self, "share", sockets[1]);
  Message message{};
  ReceiveFd(sockets[0], &message, sizeof(message));
  Join(child);
  void* none = nullptr;
  // The server notices the end of the process on its own time.
  int tries = 0;
  while (cudaIpcOpenMemHandle(&none, message.memory, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess) {
    CHECK_CUDA(cudaIpcCloseMemHandle(none));
    EXPECT_EQ(++tries < 100, true);
    usleep(50000);
  }
  cudaGetLastError();
  close(sockets[0]);
}

static int Parent(const char* self) {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  fcntl(sockets[0], F_SETFD, FD_CLOEXEC);
  const pid_t child = Spawn(self, "open", sockets[1]);

  Message message{};
  int *memory, *small, *freed;
  CHECK_CUDA(cudaMalloc(&memory, (kCount + kOffset) * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&small, 512));
  CHECK_CUDA(cudaMalloc(&freed, 1 << 21));
  CHECK_CUDA(cudaMemset(memory, 0, (kCount + kOffset) * sizeof(int)));
  CHECK_DRIVER(cuMemsetD32(reinterpret_cast<CUdeviceptr>(small), 31, 16));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaIpcGetMemHandle(&message.memory, memory));
  cudaIpcMemHandle_t again;
  CHECK_CUDA(cudaIpcGetMemHandle(&again, memory));
  EXPECT_EQ(std::memcmp(&again, &message.memory, sizeof(again)), 0);
  CHECK_CUDA(cudaIpcGetMemHandle(&message.small, small));
  CHECK_CUDA(cudaIpcGetMemHandle(&message.freed, freed));
  CHECK_CUDA(cudaFree(freed));
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, message.memory, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess, true);
  int local = 0;
  EXPECT_EQ(cudaIpcGetMemHandle(&again, &local) != cudaSuccess, true);

  cudaEvent_t event, ordinary;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  CHECK_CUDA(cudaEventCreateWithFlags(&ordinary, cudaEventDisableTiming));
  EXPECT_EQ(cudaIpcGetEventHandle(&message.event, ordinary) != cudaSuccess, true);
  cudaGetLastError();
  CHECK_CUDA(cudaIpcGetEventHandle(&message.event, event));

  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK_DRIVER(cuMemGetAllocationGranularity(&message.vmm_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle allocation;
  CHECK_DRIVER(cuMemCreate(&allocation, message.vmm_bytes, &properties, 0));
  const CUdeviceptr mapped = MapAll(allocation, message.vmm_bytes);
  CHECK_DRIVER(cuMemsetD32(mapped, 55, 1000));
  int fd = -1, fd_again = -1;
  CHECK_DRIVER(cuMemExportToShareableHandle(&fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK_DRIVER(cuMemExportToShareableHandle(&fd_again, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  EXPECT_EQ(fd != fd_again, true);
  close(fd_again);
  CUmemGenericAllocationHandle wrong;
  EXPECT_EQ(cuMemImportFromShareableHandle(&wrong, reinterpret_cast<void*>(0), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,
            true);
  CUmemGenericAllocationHandle same;  // the process may import its own
  CHECK_DRIVER(cuMemImportFromShareableHandle(&same, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK_DRIVER(cuMemRelease(same));
  CHECK_CUDA(cudaDeviceSynchronize());

  cudaMemPoolProps pool_properties{};
  pool_properties.allocType = cudaMemAllocationTypePinned;
  pool_properties.location.type = cudaMemLocationTypeDevice;
  pool_properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPool_t pool;
  CHECK_CUDA(cudaMemPoolCreate(&pool, &pool_properties));
  int pool_fd = -1;
  CHECK_CUDA(cudaMemPoolExportToShareableHandle(&pool_fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  int* pooled = nullptr;
  CHECK_CUDA(cudaMallocFromPoolAsync(&pooled, 1024, pool, cudaStreamPerThread));
  CHECK_DRIVER(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(pooled), 44, 256, CU_STREAM_PER_THREAD));
  CHECK_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK_CUDA(cudaMemPoolExportPointer(&message.pointer, pooled));

  for (int i = 0; i < 7; ++i) Add<<<16, 256>>>(memory + kOffset, kCount, 1);
  CHECK_CUDA(cudaEventRecord(event));
  SendFd(sockets[0], &message, sizeof(message), fd);
  SendFd(sockets[0], "p", 1, pool_fd);
  close(fd);
  close(pool_fd);
  char done = 0;
  ReceiveFd(sockets[0], &done, 1);
  Expect(memory + kOffset, kCount, 1007);
  Expect(reinterpret_cast<int*>(mapped), 1000, 66);
  Expect(pooled, 256, 45);
  CHECK_CUDA(cudaFreeAsync(pooled, cudaStreamPerThread));
  Join(child);
  CheckThatSharesEnd(self);
  CHECK_DRIVER(cuMemUnmap(mapped, message.vmm_bytes));
  CHECK_DRIVER(cuMemAddressFree(mapped, message.vmm_bytes));
  CHECK_DRIVER(cuMemRelease(allocation));
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaFree(small));
  CHECK_CUDA(cudaEventDestroy(event));
  std::puts("ok");
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return Parent(argv[0]);
  const int socket = std::atoi(argv[2]);
  if (std::strcmp(argv[1], "share") == 0) {
    ShareAndEnd(socket);
  } else {
    Child(socket);
  }
}
