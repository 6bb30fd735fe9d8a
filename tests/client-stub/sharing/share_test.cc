// Handles for other processes and the error log, with both ends in one process, on the emulator. Two processes: see
// tests/system/programs/sharing.cu.
#include <cuda.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client-stub/sharing/share_token.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

void* AsHandle(int fd) { return reinterpret_cast<void*>(static_cast<intptr_t>(fd)); }

class ShareTest : public testing::Test {
 protected:
  void SetUp() override { Ends(); }
  CUmemGenericAllocationHandle Create(CUmemAllocationHandleType types) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = types;
    EXPECT_EQ(cuMemGetAllocationGranularity(&bytes_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes_, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  CUdeviceptr Map(CUmemGenericAllocationHandle handle) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes_, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(address, bytes_, 0, handle, 0), CUDA_SUCCESS);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(cuMemSetAccess(address, bytes_, &access, 1), CUDA_SUCCESS);
    return address;
  }
  void Unmap(CUdeviceptr address) {
    EXPECT_EQ(cuMemUnmap(address, bytes_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(address, bytes_), CUDA_SUCCESS);
  }
  size_t bytes_ = 0;
};

TEST_F(ShareTest, DevicesSayWhatCanBeShared) {
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
}

TEST_F(ShareTest, AnExportedAllocationIsImportedByItsDescriptor) {
  const CUmemGenericAllocationHandle handle = Create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const CUdeviceptr address = Map(handle);
  uint64_t types = 0;
  EXPECT_EQ(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address), CUDA_SUCCESS);
  EXPECT_EQ(types, uint64_t{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR});
  ASSERT_EQ(cuMemsetD32(address, 0x1234, 16), CUDA_SUCCESS);
  int fd = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
  EXPECT_NE(fcntl(fd, F_GETFD), -1) << "a real descriptor of this process";
  // As another process would have it: another number, after the first was closed, and more than once.
  const int copy = dup(fd);
  close(fd);
  for (int i = 0; i < 2; ++i) {
    CUmemGenericAllocationHandle imported = 0;
    ASSERT_EQ(cuMemImportFromShareableHandle(&imported, AsHandle(copy), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_SUCCESS);
    const CUdeviceptr other = Map(imported);
    EXPECT_NE(other, address);
    uint32_t word = 0;
    EXPECT_EQ(cuMemcpyDtoH(&word, other, 4), CUDA_SUCCESS);
    EXPECT_EQ(word, 0x1234u);
    int again = -1;
    EXPECT_EQ(cuMemExportToShareableHandle(&again, imported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_ERROR_INVALID_VALUE)
        << "only who made it may export it";
    Unmap(other);
    EXPECT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  }
  // The last copy closed, nothing names the share: the next release tells the server.
  const auto token = SharedDescriptors::Read(copy);
  ASSERT_TRUE(token);
  close(copy);
  EXPECT_EQ(cuMemRelease(Create(CU_MEM_HANDLE_TYPE_NONE)), CUDA_SUCCESS);
  const int stale = SharedDescriptors().Make(*token);  // somebody kept the token
  CUmemGenericAllocationHandle imported = 0;
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, AsHandle(stale), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_UNKNOWN);
  close(stale);
  Unmap(address);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(ShareTest, ShareableHandlesCheckTheirArguments) {
  const CUmemGenericAllocationHandle handle = Create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const CUmemGenericAllocationHandle private_one = Create(CU_MEM_HANDLE_TYPE_NONE);
  constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int fd = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(nullptr, handle, kFd, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, 0, kFd, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, handle, kFd, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_NONE, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, private_one, kFd, 0), CUDA_ERROR_INVALID_VALUE) << "not made for it";
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, handle, kFd, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemImportFromShareableHandle(nullptr, AsHandle(fd), kFd), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, AsHandle(-1), kFd), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, AsHandle(fd), CU_MEM_HANDLE_TYPE_NONE), CUDA_ERROR_INVALID_VALUE);
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, AsHandle(file), kFd), CUDA_ERROR_UNKNOWN);
  close(file);
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuMemPoolImportFromShareableHandle(&pool, AsHandle(fd), kFd, 0), CUDA_ERROR_NOT_SUPPORTED) << "no pool";
  close(fd);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(private_one), CUDA_SUCCESS);
}

TEST_F(ShareTest, IpcHandlesNameBlocksAndEvents) {
  CUdeviceptr block = 0, other = 0;
  ASSERT_EQ(cuMemAlloc(&block, 3 << 20), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&other, 512), CUDA_SUCCESS);
  CUipcMemHandle handle{}, again{}, second{};
  EXPECT_EQ(cuIpcGetMemHandle(nullptr, block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, 0x1234), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuIpcGetMemHandle(&handle, block), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetMemHandle(&again, block + 4096), CUDA_SUCCESS) << "any address in it names the block";
  ASSERT_EQ(cuIpcGetMemHandle(&second, other), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&handle, &again, sizeof(handle)), 0);
  EXPECT_NE(std::memcmp(&handle, &second, sizeof(handle)), 0);
  unsigned capable = 0;
  EXPECT_EQ(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, block), CUDA_SUCCESS);
  EXPECT_EQ(capable, 1u);
  CUdeviceptr opened = 0;
  EXPECT_EQ(cuIpcOpenMemHandle(nullptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT)
      << "not in the process it comes from";
  EXPECT_EQ(cuIpcOpenMemHandle(&opened, CUipcMemHandle{}, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(block), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_NOT_PERMITTED) << "freed";
  // Another block at the same place is another share.
  ASSERT_EQ(cuMemAlloc(&block, 3 << 20), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetMemHandle(&again, block), CUDA_SUCCESS);
  EXPECT_NE(std::memcmp(&handle, &again, sizeof(handle)), 0);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);

  CUevent event = nullptr, ordinary = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&ordinary, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUipcEventHandle event_handle{};
  EXPECT_EQ(cuIpcGetEventHandle(nullptr, event), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetEventHandle(&event_handle, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetEventHandle(&event_handle, ordinary), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuIpcGetEventHandle(&event_handle, event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  CUevent none = nullptr;
  EXPECT_EQ(cuIpcOpenEventHandle(&none, CUipcEventHandle{}), CUDA_ERROR_MAP_FAILED);
  EXPECT_EQ(cuIpcOpenEventHandle(&none, event_handle), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcOpenEventHandle(&none, event_handle), CUDA_ERROR_MAP_FAILED) << "destroyed";
  EXPECT_EQ(cuEventDestroy(ordinary), CUDA_SUCCESS);
}

// --- the error log ---

struct Heard {
  int calls = 0;
  std::string last;
};

void Listen(void* data, CUlogLevel level, char* message, size_t length) {
  auto* heard = static_cast<Heard*>(data);
  ++heard->calls;
  heard->last.assign(message, length);
  EXPECT_EQ(level, CU_LOG_LEVEL_ERROR);
  EXPECT_EQ(std::strlen(message), length);
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS) << "a callback may call";
  EXPECT_EQ(cuCtxGetCurrent(nullptr), CUDA_ERROR_INVALID_VALUE) << "and fail, without hearing of it";
}

TEST_F(ShareTest, FailedCallsAreLoggedOnce) {
  CUlogIterator start = 0;
  EXPECT_EQ(cuLogsCurrent(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsCurrent(&start, 1), CUDA_SUCCESS) << "driver 580 does not look at the flags here";
  ASSERT_EQ(cuLogsCurrent(&start, 0), CUDA_SUCCESS);
  Heard heard;
  CUlogsCallbackHandle callback = nullptr;
  EXPECT_EQ(cuLogsRegisterCallback(nullptr, &heard, &callback), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuLogsRegisterCallback(&Listen, &heard, &callback), CUDA_SUCCESS);
  ASSERT_EQ(cuLogsCurrent(&start, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetDevice(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(heard.calls, 1);
  EXPECT_EQ(heard.last, "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuCtxGetDevice");
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxCreate_v4(&context, nullptr, 0, 99), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(heard.calls, 2) << "a call that is made of others is one call";
  EXPECT_EQ(cuLogsUnregisterCallback(callback), CUDA_SUCCESS);
  EXPECT_EQ(cuLogsUnregisterCallback(callback), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(heard.calls, 2);

  std::vector<char> buffer(25600);
  size_t size = buffer.size();
  CUlogIterator iterator = start;
  ASSERT_EQ(cuLogsDumpToMemory(&iterator, buffer.data(), &size, 0), CUDA_SUCCESS);
  const std::string text(buffer.data(), size);
  EXPECT_EQ(buffer[size], '\0');
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << "two calls, one of each callback, one call after it:\n" << text;
  size = buffer.size();
  EXPECT_EQ(cuLogsDumpToMemory(&iterator, buffer.data(), &size, 0), CUDA_SUCCESS);
  EXPECT_EQ(size, 0u) << "the iterator has advanced";
  size = 10;
  iterator = start;
  EXPECT_EQ(cuLogsDumpToMemory(&iterator, buffer.data(), &size, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(iterator, start);
  // No room for all: a line says so, and the newest entry is the last line.
  size = 200;
  ASSERT_EQ(cuLogsDumpToMemory(&iterator, buffer.data(), &size, 0), CUDA_SUCCESS);
  EXPECT_LT(size, 200u);
  const std::string newest(buffer.data(), size);
  EXPECT_NE(newest.find("missing"), std::string::npos) << newest;
  EXPECT_NE(newest.find("from cuLogsDumpToMemory\n"), std::string::npos) << newest;
  size = 200;
  EXPECT_EQ(cuLogsDumpToMemory(nullptr, nullptr, &size, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsDumpToMemory(nullptr, buffer.data(), nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsDumpToMemory(nullptr, buffer.data(), &size, 1), CUDA_SUCCESS);
  CUlogIterator beyond = 0;
  EXPECT_EQ(cuLogsCurrent(&beyond, 0), CUDA_SUCCESS);
  beyond += 100;
  size = 100;
  EXPECT_EQ(cuLogsDumpToMemory(&beyond, buffer.data(), &size, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(size, 0u);

  const std::string path = testing::TempDir() + "/error_log." + std::to_string(getpid());
  EXPECT_EQ(cuLogsDumpToFile(nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsDumpToFile(nullptr, "/nonexistent/log", 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuLogsDumpToFile(nullptr, path.c_str(), 0), CUDA_SUCCESS);
  std::ifstream file(path);
  std::stringstream dumped;
  dumped << file.rdbuf();
  EXPECT_NE(dumped.str().find("from cuLogsDumpToFile\n"), std::string::npos);
  unlink(path.c_str());
  for (int i = 0; i < 150; ++i) EXPECT_EQ(cuCtxGetDevice(nullptr), CUDA_ERROR_INVALID_VALUE);
  size = buffer.size();
  iterator = start;
  ASSERT_EQ(cuLogsDumpToMemory(&iterator, buffer.data(), &size, 0), CUDA_SUCCESS);
  EXPECT_NE(std::string(buffer.data(), size).find("missing"), std::string::npos) << "the oldest were dropped";
}

TEST_F(ShareTest, AsyncNotificationsAreKeptAndNeverCome) {
  CUasyncCallbackHandle handle = nullptr;
  const CUasyncCallback never = [](CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) { FAIL(); };
  EXPECT_EQ(cuDeviceRegisterAsyncNotification(99, never, nullptr, &handle), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceRegisterAsyncNotification(0, never, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuDeviceRegisterAsyncNotification(0, never, nullptr, &handle), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(0, handle), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(0, handle), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tessera
