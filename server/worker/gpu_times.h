// When the GPU ran what a session launched, for a client that traces (TESSERA_TRACE): an event of the driver in the stream before
// each launch, and one behind it. Nobody waits for them: later launches and Read() look which of them are done. A stream that is
// captured gets none, so its launches have a name and no times, as have those whose stream is of another context than the current
// one, and those that come while kPendingMax are not done.
//
// Events tell how long ago another event was. So each second one is recorded in a stream of its own, which has nothing else to
// do: the anchor, which the GPU passes as soon as it is asked for. Its time of the host is the latest by which no event was
// passed before it was asked for. Source: CUDA Driver API, cuEventElapsedTime (resolution about 0.5 us).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/trace_event.h"

namespace tessera {

struct DriverTable;    // generated/driver_table.h
class ThreadContexts;  // threads/thread_contexts.h

class GpuTimes {
 public:
  // Launches of one context whose events are not done.
  static constexpr size_t kPendingMax = 4096;
  static constexpr uint64_t kAnchorNs = 1'000'000'000;

  // A launch that is about to be; without events it is not measured.
  struct Launch {
    CUcontext context = nullptr;
    CUevent begin = nullptr;
    CUevent end = nullptr;
    uint64_t asked_ns = 0;  // before `begin` was recorded
    size_t anchor = 0;
  };

  // Both outlive it.
  GpuTimes(const DriverTable& driver, ThreadContexts& contexts) : driver_(driver), contexts_(contexts) {}

  // Right before the driver's call and right behind it, on one thread, with the same context current. `stream`: the driver's.
  // `result`: of the call. `name`: stays valid for the session.
  Launch Before(CUstream stream) EXCLUDES(mutex_);
  void After(const Launch& launch, CUresult result, uint64_t sequence, const char* name, CUstream stream) EXCLUDES(mutex_);

  // The context is about to be destroyed or reset, its work is done, and it is current. Any thread.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

  // Up to `count` launches from number `first` on, in their order. Where `first` is 0 all events are looked at before, once.
  // Executor thread.
  std::vector<TraceWork> Read(uint64_t first, uint64_t count) EXCLUDES(mutex_);
  // Names from number `first` on, as many as have `bytes` bytes together, each cut to kNameMax. Any thread.
  std::vector<std::string_view> Names(uint64_t first, size_t bytes) const EXCLUDES(mutex_);
  static constexpr size_t kNameMax = 4096;

 private:
  static constexpr size_t kLooks = 2;  // for each launch: one more than a launch adds
  static constexpr size_t kNone = ~size_t{0};

  struct Anchor {
    CUevent event;
    uint64_t at_ns;  // the earliest at which the GPU can have passed it
  };
  // A launch whose events are not done.
  struct Pending {
    Launch launch;
    size_t kept;  // its number in kept_
  };
  struct Clock {
    bool usable = true;
    CUstream stream = nullptr;
    size_t anchor = kNone;          // the newest, in anchors_
    uint64_t anchored_ns = 0;       // when it was made
    std::vector<CUevent> anchored;  // events of all its anchors
    std::vector<CUevent> idle;
    std::deque<Pending> pending;
  };
  // As TraceWork, with times from the anchor on.
  struct Kept {
    TraceWork work;
    int64_t begin_ns = 0;  // may be before the anchor
    int64_t took_ns = 0;
    size_t anchor = kNone;  // not measured
  };

  bool Anchored(Clock& clock) REQUIRES(mutex_);
  bool TakeEvents(Clock& clock, Launch* launch) REQUIRES(mutex_);
  // Looks at up to `count` pending launches.
  void Look(Clock& clock, size_t count) REQUIRES(mutex_);
  CUresult Measure(const Launch& launch, Kept* kept) REQUIRES(mutex_);
  uint32_t NumberOf(const char* name) REQUIRES(mutex_);

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  mutable Mutex mutex_;
  std::map<CUcontext, Clock> clocks_ GUARDED_BY(mutex_);
  std::vector<Anchor> anchors_ GUARDED_BY(mutex_);
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
  std::vector<const char*> names_ GUARDED_BY(mutex_);
  std::map<const char*, uint32_t> name_numbers_ GUARDED_BY(mutex_);
  std::map<std::pair<CUcontext, CUstream>, uint32_t> stream_numbers_ GUARDED_BY(mutex_);
};

}  // namespace tessera
