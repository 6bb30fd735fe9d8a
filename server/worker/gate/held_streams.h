// The streams that wait for the client: a function of the program is next in them, and the client was asked to run it. Nothing of
// such a stream runs on the GPU meanwhile. Nor does the default stream of its context, where the two wait for each other. The
// library's own work in the client holds streams too (streams/stream_visits.h).
//
//   const HeldStreams::Wait wait = held.Expect(stream, context);  // before the driver is given the function
//   const uint64_t number = held.Began(wait);                     // the client is asked
//   held.Ended(number);                                           // it has answered; the stream has not gone on yet
//
// A stream that is not known to wait counts as working. Not known are functions in graphs, since nobody tells their streams, and
// functions that the driver has yet to begin, since it runs those of a context one after the other. When a stream is destroyed
// all functions enqueued before become unknown, because its address may be another stream's now.
//
// While all unfinished work of a session waits in this way the session rests, and the executor may sleep. The first wait that
// ends calls `on_end` on its own thread, before its stream goes on, so no work is missed. Any thread, unless a comment says
// otherwise.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

class HeldStreams {
 public:
  struct Wait {
    CUcontext context = nullptr;  // null: the wait is not to be known
    CUstream stream = nullptr;    // null: the default stream
    bool holds_default = false;   // the default stream of the context waits with it
    uint64_t enqueued_ns = 0;
    uint64_t streams_gone = 0;
  };
  struct Open {
    uint64_t number;
    Wait wait;
    uint64_t began_ns;
  };
  // The waits that have begun and not ended, at one moment.
  struct View {
    std::vector<Open> open;
    uint64_t ended = 0;  // waits that have ended, in all

    // The first wait that holds this stream of the context; null: none.
    const Open* Find(CUstream stream, CUcontext context) const;
  };

  // `driver` outlives the object. `on_end` gets the time and must not call back. Without `on_end` no wait is known.
  HeldStreams(const DriverTable& driver, std::function<void(uint64_t now_ns)> on_end);

  // A function is about to be enqueued. `current`: the calling thread's context. The executor.
  Wait Expect(CUstream stream, CUcontext current) EXCLUDES(mutex_);
  // The wait has begun. Returns its number; 0: it is not known.
  uint64_t Began(const Wait& wait) EXCLUDES(mutex_);
  void Ended(uint64_t number) EXCLUDES(mutex_);
  // A stream is about to be destroyed.
  void StreamGoes() EXCLUDES(mutex_);

  // The executor's part.
  View Look() EXCLUDES(mutex_);
  // If no wait has ended since `view` it calls `action`, which reports that the session rests. Otherwise it returns false. From
  // then on `on_end` reports that the session works, until GoOn().
  bool Rest(const View& view, const std::function<void()>& action) EXCLUDES(mutex_);
  // From now on the executor reports again. Returns when the first wait since Rest() ended; 0: none did.
  uint64_t GoOn() EXCLUDES(mutex_);
  // Since when this stream of the context waits; 0: it does not. Costs one load while no stream waits.
  uint64_t SinceNs(CUstream stream, CUcontext context) EXCLUDES(mutex_);
  // Whether a wait has ended since Rest(). Costs one load.
  bool HasEnded() const { return ended_ns_.load(std::memory_order_acquire) != 0; }

 private:
  const DriverTable& driver_;
  const std::function<void(uint64_t now_ns)> on_end_;
  Mutex mutex_;
  std::vector<Open> open_ GUARDED_BY(mutex_);
  std::atomic<size_t> open_count_{0};  // its size
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  uint64_t ended_ GUARDED_BY(mutex_) = 0;
  uint64_t streams_gone_ GUARDED_BY(mutex_) = 0;
  bool rests_ GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> ended_ns_{0};  // written under the mutex
};

}  // namespace tessera
