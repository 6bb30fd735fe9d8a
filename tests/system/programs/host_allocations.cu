// Physical memory on the host (cuMemCreate), mapped in reserved addresses: one address for the program, for copies and for
// kernels; who has access, several mappings of the same memory, contexts that end, and another process that maps it.
//
// usage: host_allocations [--refused: the device says that it has none, and every way to one is refused]
#include <cuda.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "pass_descriptor.h"

extern char** environ;

namespace {

constexpr size_t kUnit = size_t{2} << 20;
constexpr size_t kBytes = 2 * kUnit;
constexpr int kCount = kBytes / sizeof(int);

__global__ void Add(int* values, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] += value;
}

void AddOnDevice(CUdeviceptr values, int n, int value) {
  Add<<<4, 256>>>(reinterpret_cast<int*>(values), n, value);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaDeviceSynchronize());
}

int* Ints(CUdeviceptr address) { return reinterpret_cast<int*>(address); }

void ExpectAll(CUdeviceptr values, int n, int value) {
  for (int i = 0; i < n; ++i) EXPECT_EQ(Ints(values)[i], value);
}

int DeviceAttribute(CUdevice_attribute attribute) {
  int value = -1;
  CHECK_DRIVER(cuDeviceGetAttribute(&value, attribute, 0));
  return value;
}

CUmemAllocationProp Properties(CUmemLocationType type, bool shareable = false) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = type;
  properties.requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}

CUmemGenericAllocationHandle Create(CUmemLocationType type, bool shareable = false) {
  const CUmemAllocationProp properties = Properties(type, shareable);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_DRIVER(cuMemCreate(&handle, kBytes, &properties, 0));
  return handle;
}

CUdeviceptr Reserve(size_t bytes) {
  CUdeviceptr address = 0;
  CHECK_DRIVER(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return address;
}

CUresult Access(CUdeviceptr address, size_t bytes, CUmemLocationType type, CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location.type = type;
  access.flags = flags;
  return cuMemSetAccess(address, bytes, &access, 1);
}
constexpr CUmemLocationType kDevice = CU_MEM_LOCATION_TYPE_DEVICE, kHost = CU_MEM_LOCATION_TYPE_HOST,
                            kNode = CU_MEM_LOCATION_TYPE_HOST_NUMA;
constexpr CUmemAccess_flags kNone = CU_MEM_ACCESS_FLAGS_PROT_NONE, kRead = CU_MEM_ACCESS_FLAGS_PROT_READ,
                            kWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

uint64_t AccessOf(CUdeviceptr address, CUmemLocationType type) {
  CUmemLocation location{};
  location.type = type;
  unsigned long long flags = 77;
  CHECK_DRIVER(cuMemGetAccess(&flags, &location, address));
  return flags;
}

// All of an allocation at an address of its own, for the program and for device 0.
CUdeviceptr MapForAll(CUmemGenericAllocationHandle handle) {
  const CUdeviceptr address = Reserve(kBytes);
  CHECK_DRIVER(cuMemMap(address, kBytes, 0, handle, 0));
  CHECK_DRIVER(Access(address, kBytes, kDevice, kWrite));
  CHECK_DRIVER(Access(address, kBytes, kHost, kWrite));
  return address;
}

void Unmap(CUdeviceptr address, size_t bytes = kBytes) {
  CHECK_DRIVER(cuMemUnmap(address, bytes));
  CHECK_DRIVER(cuMemAddressFree(address, bytes));
}

// Whether the program itself may read or write there, as the system sees it.
struct Pipe {
  int ends[2];
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  bool Readable(CUdeviceptr address) {
    const bool readable = write(ends[1], reinterpret_cast<void*>(address), 1) == 1;
    char byte = 0;
    if (readable) EXPECT_EQ(read(ends[0], &byte, 1), ssize_t{1});
    return readable;
  }
  bool Writable(CUdeviceptr address) {
    char byte = 0;
    EXPECT_EQ(write(ends[1], &byte, 1), ssize_t{1});
    const bool writable = read(ends[0], reinterpret_cast<void*>(address), 1) == 1;
    if (!writable) EXPECT_EQ(read(ends[0], &byte, 1), ssize_t{1});
    return writable;
  }
};

void CheckAccess(CUmemLocationType type) {
  Pipe pipe;
  const CUmemGenericAllocationHandle handle = Create(type);
  CUmemAllocationProp properties{};
  CHECK_DRIVER(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  EXPECT_EQ(properties.location.type, kNode);  // of either
  const CUdeviceptr address = Reserve(2 * kBytes);
  EXPECT_EQ(pipe.Readable(address), false);
  CHECK_DRIVER(cuMemMap(address, kBytes, 0, handle, 0));
  EXPECT_EQ(pipe.Readable(address), false);
  EXPECT_EQ(AccessOf(address, kDevice) | AccessOf(address, kHost), uint64_t{0});
  CHECK_DRIVER(Access(address, kBytes, type, kWrite));
  ExpectAll(address, kCount, 0);  // what nobody has written is zero
  // To copies it is ordinary memory, whatever their form.
  std::vector<int> other(kCount, 2);
  CHECK_DRIVER(cuMemcpyHtoD(address, other.data(), kBytes));
  ExpectAll(address, kCount, 2);
  CHECK_DRIVER(cuMemcpyDtoD(address, address + kUnit, 400));
  CUdeviceptr device = 0;
  CHECK_DRIVER(cuMemAlloc(&device, kBytes));
  CHECK_DRIVER(cuMemcpyDtoD(device, address, kBytes));
  AddOnDevice(device, kCount, 1);
  CHECK_DRIVER(cuMemcpyDtoD(address, device, kBytes));
  ExpectAll(address, kCount, 3);
  EXPECT_EQ(AccessOf(address, kNode), uint64_t{kWrite});
  EXPECT_EQ(AccessOf(address, kDevice), uint64_t{0});
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address), CUDA_ERROR_INVALID_VALUE);

  CHECK_DRIVER(Access(address, kBytes, kDevice, kWrite));
  EXPECT_EQ(AccessOf(address, kDevice), uint64_t{kWrite});
  AddOnDevice(address, kCount, 4);
  ExpectAll(address, kCount, 7);
  unsigned kind = 0;
  CHECK_DRIVER(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  EXPECT_EQ(kind, unsigned{CU_MEMORYTYPE_HOST});
  CHECK_DRIVER(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 5));
  EXPECT_EQ(pointer, address + 5);
  size_t bytes = 0;
  CHECK_DRIVER(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
  EXPECT_EQ(bytes, 2 * kBytes);  // of the reservation
  CHECK_DRIVER(cuMemGetAddressRange(&pointer, &bytes, address + 5));
  EXPECT_EQ(bytes, kBytes);

  // The program's access and that of devices are apart.
  CHECK_DRIVER(Access(address, kBytes, kHost, kRead));
  EXPECT_EQ(pipe.Readable(address), true);
  EXPECT_EQ(pipe.Writable(address), false);
  CHECK_DRIVER(Access(address, kBytes, kHost, kNone));
  EXPECT_EQ(pipe.Readable(address), false);
  AddOnDevice(address, kCount, 1);
  // The program itself reaches it by copies alone.
  CHECK_DRIVER(cuMemcpyDtoH(other.data(), address, kBytes));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(other[i], 8);
  CHECK_DRIVER(cuMemcpyDtoD(device, address, kBytes));
  // What a synchronous form has written is there when it returns, for a program that may look at it from then on.
  for (int round = 0; round < 20; ++round) {
    CHECK_DRIVER(Access(address, kBytes, type, kNone));
    CHECK_DRIVER(cuMemsetD32(address, round, kCount));
    CHECK_DRIVER(Access(address, kBytes, type, kRead));
    ExpectAll(address, kCount, round);
    CHECK_DRIVER(Access(address, kBytes, type, kNone));
    CHECK_DRIVER(cuMemcpyDtoD(address, device, kBytes));
    CHECK_DRIVER(Access(address, kBytes, type, kRead));
    ExpectAll(address, kCount, 8);
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = device;
    rows.dstDevice = address;
    rows.WidthInBytes = rows.srcPitch = rows.dstPitch = 4096;
    rows.Height = kBytes / 4096;
    CHECK_DRIVER(cuMemsetD32(device, 8 + round, kCount));
    CHECK_DRIVER(Access(address, kBytes, type, kNone));
    CHECK_DRIVER(cuMemcpy2D(&rows));
    CHECK_DRIVER(Access(address, kBytes, type, kRead));
    ExpectAll(address, kCount, 8 + round);
    CHECK_DRIVER(cuMemsetD32(device, 8, kCount));
  }
  CHECK_DRIVER(Access(address, kBytes, kHost, kNone));
  CHECK_DRIVER(cuMemcpyHtoD(address, other.data(), kBytes));
  CHECK_DRIVER(cuMemFree(device));
  CHECK_DRIVER(Access(address, kBytes, type, kWrite));
  ExpectAll(address, kCount, 8);

  // All of it or nothing, and nothing twice.
  EXPECT_EQ(Access(address, kUnit, kHost, kRead), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Access(address, 2 * kBytes, kHost, kRead), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + kBytes, kUnit, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(address, kBytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kBytes), CUDA_ERROR_INVALID_VALUE);

  CHECK_DRIVER(cuMemRelease(handle));
  ExpectAll(address, kCount, 8);  // what is mapped stays
  CHECK_DRIVER(cuMemUnmap(address, kBytes));
  EXPECT_EQ(pipe.Readable(address), false);
  CHECK_DRIVER(cuMemUnmap(address, kBytes));  // nothing is there
  CHECK_DRIVER(cuMemAddressFree(address, 2 * kBytes));
}

void CheckCopies() {
  const CUmemGenericAllocationHandle first = Create(kNode), second = Create(kHost);
  const CUdeviceptr address = Reserve(2 * kBytes);
  CHECK_DRIVER(cuMemMap(address, kBytes, 0, first, 0));
  CHECK_DRIVER(cuMemMap(address + kBytes, kBytes, 0, second, 0));
  CHECK_DRIVER(Access(address, 2 * kBytes, kDevice, kWrite));
  CHECK_DRIVER(Access(address, 2 * kBytes, kHost, kWrite));
  CUdeviceptr device = 0;
  CHECK_DRIVER(cuMemAlloc(&device, 2 * kBytes));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<int> other(2 * kCount, 5);

  // Across the two, which follow each other, in every direction.
  CHECK_DRIVER(cuMemcpyHtoD(address, other.data(), 2 * kBytes));
  ExpectAll(address, 2 * kCount, 5);
  CHECK_DRIVER(cuMemcpyHtoDAsync(device, reinterpret_cast<void*>(address), 2 * kBytes, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  AddOnDevice(address, 2 * kCount, 1);
  AddOnDevice(device, 2 * kCount, 10);
  CHECK_DRIVER(cuMemcpyDtoHAsync(reinterpret_cast<void*>(address), device, 2 * kBytes, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  ExpectAll(address, kCount, 15);
  CHECK_DRIVER(cuMemsetD32Async(address + kBytes - 400, 9, 100, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Ints(address)[kCount - 101], 15);
  ExpectAll(address + kBytes - 400, 100, 9);
  EXPECT_EQ(cuMemsetD32Async(address + kBytes - 400, 9, 200, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemcpyDtoD(device, address, 2 * kBytes));
  CHECK_DRIVER(cuMemcpyDtoH(other.data(), device, 2 * kBytes));
  EXPECT_EQ(std::memcmp(other.data(), Ints(address), 2 * kBytes), 0);
  EXPECT_EQ(cuMemcpyDtoD(device, address, 2 * kBytes + 1), CUDA_ERROR_INVALID_VALUE);

  // In a graph; while it is captured, memory may be unmapped elsewhere.
  const CUmemGenericAllocationHandle third = Create(kHost);
  const CUdeviceptr beside = MapForAll(third);
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_DRIVER(cuMemcpyAsync(device, address, kBytes, stream));
  CHECK_DRIVER(cuMemUnmap(beside, kBytes));
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_DRIVER(cuMemAddressFree(beside, kBytes));
  CHECK_DRIVER(cuMemRelease(third));
  cudaGraphExec_t executable;
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < kCount; ++i) Ints(address)[i] = 21;
  CHECK_CUDA(cudaGraphLaunch(executable, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_DRIVER(cuMemcpyDtoH(other.data(), device, kBytes));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(other[i], 21);
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));

  CHECK_DRIVER(cuMemFree(device));
  Unmap(address, 2 * kBytes);
  CHECK_DRIVER(cuMemRelease(first));
  CHECK_DRIVER(cuMemRelease(second));
}

// Beside memory of the device, mapped twice, and retained by its address.
void CheckMappings() {
  const CUmemGenericAllocationHandle handle = Create(kNode);
  const CUdeviceptr one = MapForAll(handle), two = MapForAll(handle);
  for (int i = 0; i < kCount; ++i) Ints(one)[i] = 1;
  AddOnDevice(two, kCount, 1);
  ExpectAll(one, kCount, 2);
  CUmemGenericAllocationHandle same = 0;
  CHECK_DRIVER(cuMemRetainAllocationHandle(&same, reinterpret_cast<void*>(two + 100)));
  EXPECT_EQ(same, handle);
  Unmap(two);
  CHECK_DRIVER(cuMemRelease(same));
  CHECK_DRIVER(cuMemRelease(handle));

  // Its handle has been released, and there is one again.
  CHECK_DRIVER(cuMemRetainAllocationHandle(&same, reinterpret_cast<void*>(one)));
  Unmap(one);
  const CUdeviceptr range = Reserve(2 * kBytes);
  CHECK_DRIVER(cuMemMap(range, kBytes, 0, same, 0));
  CUmemAllocationProp properties = Properties(kDevice);
  CUmemGenericAllocationHandle on_device = 0;
  CHECK_DRIVER(cuMemCreate(&on_device, kBytes, &properties, 0));
  CHECK_DRIVER(cuMemMap(range + kBytes, kBytes, 0, on_device, 0));
  CHECK_DRIVER(Access(range, 2 * kBytes, kDevice, kWrite));
  EXPECT_EQ(Access(range, 2 * kBytes, kHost, kWrite), CUDA_ERROR_NOT_SUPPORTED);  // the program reaches no memory of a device
  CHECK_DRIVER(Access(range, kBytes, kHost, kWrite));
  ExpectAll(range, kCount, 2);
  CHECK_DRIVER(cuMemcpyDtoD(range + kBytes, range, kBytes));
  AddOnDevice(range, 2 * kCount, 1);
  std::vector<int> other(kCount);
  CHECK_DRIVER(cuMemcpyDtoH(other.data(), range + kBytes, kBytes));
  EXPECT_EQ(std::memcmp(other.data(), Ints(range), kBytes), 0);
  EXPECT_EQ(other[kCount - 1], 3);
  CHECK_DRIVER(cuMemUnmap(range, 2 * kBytes));
  // Where there was memory of the host there may be the device's, and the other way round.
  CHECK_DRIVER(cuMemMap(range, kBytes, 0, on_device, 0));
  CHECK_DRIVER(cuMemMap(range + kBytes, kBytes, 0, same, 0));
  CHECK_DRIVER(Access(range, 2 * kBytes, kDevice, kWrite));
  AddOnDevice(range, 2 * kCount, 1);
  CHECK_DRIVER(Access(range + kBytes, kBytes, kHost, kRead));
  ExpectAll(range + kBytes, kCount, 4);
  Unmap(range, 2 * kBytes);
  CHECK_DRIVER(cuMemRelease(on_device));
  CHECK_DRIVER(cuMemRelease(same));
}

// It belongs to no context: it is made before there is one, and is there when that one has ended.
void CheckContexts() {
  CHECK_CUDA(cudaDeviceReset());
  CHECK_DRIVER(cuCtxSetCurrent(nullptr));
  const CUmemGenericAllocationHandle handle = Create(kHost);
  const CUdeviceptr address = MapForAll(handle);
  CHECK_CUDA(cudaFree(nullptr));
  AddOnDevice(address, kCount, 1);
  CUcontext context;
  CHECK_DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  CHECK_DRIVER(cuCtxPopCurrent(nullptr));
  CHECK_CUDA(cudaDeviceReset());
  ExpectAll(address, kCount, 1);
  CHECK_DRIVER(cuCtxDestroy(context));
  ExpectAll(address, kCount, 1);
  CHECK_CUDA(cudaFree(nullptr));
  AddOnDevice(address, kCount, 1);
  ExpectAll(address, kCount, 2);
  Unmap(address);
  CHECK_DRIVER(cuMemRelease(handle));
}

// What another process maps; it has no handle of its own to export.
void Child(int socket) {
  CHECK_CUDA(cudaFree(nullptr));
  char byte = 0;
  const int fd = ReceiveFd(socket, &byte, 1);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_DRIVER(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  int again = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&again, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr address = MapForAll(handle);
  ExpectAll(address, kCount, 20);
  for (int i = 0; i < kCount; ++i) Ints(address)[i] += 1;
  AddOnDevice(address, kCount, 10);
  Unmap(address);
  CHECK_DRIVER(cuMemRelease(handle));
  EXPECT_EQ(write(socket, "d", 1), ssize_t{1});
}

void CheckProcesses() {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const std::string number = std::to_string(sockets[1]);
  const char* arguments[] = {"host_allocations", "--child", number.c_str(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
  close(sockets[1]);
  const CUmemGenericAllocationHandle handle = Create(kNode, true);
  const CUdeviceptr address = MapForAll(handle);
  AddOnDevice(address, kCount, 20);
  int fd = -1;
  CHECK_DRIVER(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  SendFd(sockets[0], "x", 1, fd);
  close(fd);
  char done = 0;
  EXPECT_EQ(read(sockets[0], &done, 1), ssize_t{1});
  ExpectAll(address, kCount, 31);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectAll(address, kCount, 31);
  Unmap(address);
  CHECK_DRIVER(cuMemRelease(handle));
}

void CheckRefused() {
  EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
  EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
  for (const CUmemLocationType type : {kHost, kNode}) {
    const CUmemAllocationProp properties = Properties(type);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kBytes, &properties, 0), CUDA_ERROR_NOT_SUPPORTED);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--child") == 0) {
    Child(std::atoi(argv[2]));
    return 0;
  }
  CHECK_CUDA(cudaFree(nullptr));
  if (argc == 2 && std::strcmp(argv[1], "--refused") == 0) {
    CheckRefused();
  } else {
    EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
    EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
    CheckAccess(kHost);
    CheckAccess(kNode);
    CheckCopies();
    CheckMappings();
    CheckContexts();
    CheckProcesses();
  }
  std::puts("ok");
  return 0;
}
