#include "server/worker/stream_words.h"

#include <sys/mman.h>

#include "generated/driver_table.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

bool HasOperations(const DriverTable& driver) {
  CUdevice device = 0;
  int able = 0;
  return driver.cuStreamWaitValue64_v2 != nullptr && driver.cuStreamWriteValue64_v2 != nullptr &&
         driver.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
         driver.cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) == CUDA_SUCCESS &&
         able != 0;
}

}  // namespace

std::shared_ptr<StreamWords> StreamWords::Make(const DriverTable& driver, size_t bytes, const char* else_what) {
  if (!HasOperations(driver)) return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::shared_ptr<StreamWords> words(new StreamWords(static_cast<std::byte*>(memory), bytes));
  CUresult result = driver.cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) {
    words->registered_ = true;
    result = driver.cuMemHostGetDevicePointer_v2(&words->device_, memory, 0);
    if (result != CUDA_SUCCESS) words->EndContext(driver);
  }
  if (result == CUDA_SUCCESS) return words;
  LogWarning("driver does not register {} bytes for words of streams: result {}; {}", bytes, int(result), else_what);
  return nullptr;
}

StreamWords::~StreamWords() {
  if (!registered_) munmap(memory_, bytes_);
}

void StreamWords::EndContext(const DriverTable& driver) {
  const CUresult result = driver.cuMemHostUnregister(memory_);
  registered_ = result != CUDA_SUCCESS;
  if (registered_) LogDebug("the words of a context that failed were not unregistered: result {}", int(result));
}

}  // namespace tessera
