#include "server/worker/host_words.h"

#include <sys/mman.h>

#include "generated/driver_table.h"
#include "protocol/base/log.h"

namespace tessera {

std::unique_ptr<HostWords> HostWords::Make(const DriverTable& driver, size_t count) {
  CUdevice device = 0;
  int able = 0;
  if (driver.cuStreamWaitValue64_v2 == nullptr || driver.cuStreamWriteValue64_v2 == nullptr ||
      driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) != CUDA_SUCCESS ||
      able == 0) {
    return nullptr;
  }
  const size_t bytes = count * sizeof(uint64_t);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<HostWords> words(new HostWords(static_cast<uint64_t*>(memory), bytes));
  CUresult result = driver.cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) {
    words->registered_ = true;
    result = driver.cuMemHostGetDevicePointer_v2(&words->device_, memory, 0);
    if (result != CUDA_SUCCESS) words->Unregister(driver);
  }
  if (result == CUDA_SUCCESS) return words;
  LogWarning("the driver does not register {} bytes for words that streams use: result {}; copies of registered memory can be held "
             "up by host functions, and waits take longer", bytes, int(result));
  return nullptr;
}

HostWords::~HostWords() {
  if (!registered_) munmap(memory_, bytes_);
}

void HostWords::Unregister(const DriverTable& driver) {
  const CUresult result = driver.cuMemHostUnregister(memory_);
  registered_ = result != CUDA_SUCCESS;
  if (registered_) LogDebug("the words of a context that failed were not unregistered: result {}", int(result));
}

}  // namespace tessera
