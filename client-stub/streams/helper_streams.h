// Streams of the library in contexts of other sessions. They run work that a call of one session needs in another one, ordered by
// meetings (stream_meeting.h). They stay until their context ends. Any thread.
//
// Each piece of work has a stream to itself unless there are too many at once. Then they share streams, as streams natively share
// the queues of the device: work waits for other work that was enqueued before it. What it waits for by itself was also enqueued
// before it, so nothing waits for ever.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <vector>

#include "client-stub/process/process_part.h"
#include "client-stub/session/context.h"
#include "client-stub/session/session.h"
#include "protocol/base/mutex.h"

namespace tessera {

class HelperStreams {
 public:
  // Of one context; the default of CUDA_DEVICE_MAX_CONNECTIONS is 8, its largest value 32.
  static constexpr size_t kStreamsMax = 32;

  static HelperStreams& Process() { return PartOfProcess<HelperStreams>::Get(); }

  // A stream of the context, which is current on the calling thread. Return() follows when the work is done, or was not
  // enqueued.
  CUresult Take(const Context& context, HandleId* stream) EXCLUDES(mutex_);
  void Return(HandleId context, HandleId stream) EXCLUDES(mutex_);

 private:
  struct Helper {
    HandleId stream;
    int users = 0;
  };
  Mutex mutex_;
  std::map<uint64_t, std::vector<Helper>> helpers_ GUARDED_BY(mutex_);  // by context
};

}  // namespace tessera
