// Table 21318C60: questions about contexts and streams that cuBLAS, cuBLASLt and cuFFT ask; caches of kernels are keyed
// by the answers.

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "client-stub/hidden_tables/context_number.h"
#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "generated/client/stream.h"
#include "protocol/base/mutex.h"

namespace tessera {
namespace {

struct Tag {
  static constexpr const char* kName = "21318C60";
  static constexpr size_t kWords = 93;
};

// What slot 51 hands out for a stream: opaque to the caller. Kept for ever, one per stream number that was asked for.
struct StreamObject {
  std::array<std::byte, 512> zeros{};
};

class StreamObjects {
 public:
  void* Of(uint64_t number) {
    MutexLock lock(mutex_);
    std::unique_ptr<StreamObject>& object = by_number_[number];
    if (object == nullptr) {
      object = std::make_unique<StreamObject>();
      numbers_[object.get()] = number;
    }
    return object.get();
  }
  bool Number(const void* object, uint64_t* number) {
    MutexLock lock(mutex_);
    const auto found = numbers_.find(object);
    if (found == numbers_.end()) return false;
    *number = found->second;
    return true;
  }

 private:
  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<StreamObject>> by_number_ GUARDED_BY(mutex_);
  std::unordered_map<const void*, uint64_t> numbers_ GUARDED_BY(mutex_);
};

StreamObjects& Objects() {
  static auto* const objects = new StreamObjects;
  return *objects;
}

// Slot 51: from a stream (0: the null stream) to an object.
CUresult ObjectOfStream(CUcontext, CUstream stream, void** object) {
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned long long number = 0;
  if (const CUresult result = Enter_cuStreamGetId(false, stream, &number); result != CUDA_SUCCESS) return result;
  *object = Objects().Of(number);
  return CUDA_SUCCESS;
}

// Slot 39: from that object to the stream's number.
CUresult NumberOfObject(CUcontext, void* object, uint64_t* number) {
  if (object == nullptr || number == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Objects().Number(object, number) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

const void* ContextQueries() {
  static HiddenTable<Tag> table;
  static const void* const filled = &table.Set(4, &ContextNumber).Set(39, &NumberOfObject).Set(51, &ObjectOfStream);
  return filled;
}

}  // namespace tessera
