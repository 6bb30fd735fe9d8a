// The streams with work that may use managed memory, and that were not waited for since they got it.
//
// A stream is named by its handle. The default streams of a context, also those of threads, are named by the legacy stream, which
// waits for all of them. Any thread.
#pragma once

#include <cuda.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

struct WorkedStream {
  HandleId context;
  HandleId stream;
  friend auto operator<=>(const WorkedStream&, const WorkedStream&) = default;
};

// `stream` as it travels in records: 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are default streams.
WorkedStream NameOf(HandleId context, HandleId stream);

class PendingWork {
 public:
  void Note(const WorkedStream& stream) EXCLUDES(mutex_);
  // Takes out the streams of which `wanted` is true.
  std::vector<WorkedStream> Take(const std::function<bool(const WorkedStream&)>& wanted) EXCLUDES(mutex_);
  void ForEach(const std::function<void(const WorkedStream&)>& visit) EXCLUDES(mutex_);
  void ForgetContext(HandleId context) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::set<WorkedStream> streams_ GUARDED_BY(mutex_);
};

}  // namespace tessera
