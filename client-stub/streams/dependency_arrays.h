// Arrays that the application was handed as pointers: valid until the stream's next capture call (driver API,
// cuStreamGetCaptureInfo), kept per stream. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"

namespace tessera {

struct Dependencies {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> edges;
};

class DependencyArrays {
 public:
  static DependencyArrays& Process() { return PartOfProcess<DependencyArrays>::Get(); }

  // New ones for the stream with this key (StreamRef::key).
  std::shared_ptr<Dependencies> Replace(uint64_t stream_key) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    auto& kept = arrays_[stream_key];
    kept = std::make_shared<Dependencies>();
    return kept;
  }
  void Drop(uint64_t stream_key) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    arrays_.erase(stream_key);
  }

 private:
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Dependencies>> arrays_ GUARDED_BY(mutex_);
};

}  // namespace tessera
