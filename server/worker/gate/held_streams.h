// Which streams wait for the client: a function of the program stands next in them, and the client was asked to run it. Nothing
// of such a stream runs on the GPU meanwhile, nor of the default stream of its context where the two wait for each other. The
// library's own work in the client holds streams too (streams/stream_visits.h).
//
//   const HeldStreams::Wait wait = held.Expect(stream, context);  // before the driver is given the function
//   const uint64_t number = held.Began(wait);                     // the client is asked
//   held.Ended(number);                                           // it has answered; the stream has not gone on yet
//
// What is not known to wait works: functions in graphs, whose streams nobody tells; those that the driver has yet to begin, as it
// runs those of a context one after the other; and all that were enqueued before a stream was destroyed, whose address may be
// another one's now.
//
// While all unfinished work of a session waits so the executor lets it rest, and may sleep. The first wait that ends then says so
// to `on_end`, on its own thread and before its stream goes on: no work goes unseen. Any thread, but where a line says otherwise.
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
    CUcontext context = nullptr;  // null: it is not to be known
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
  // Those that have begun and not ended, at one moment.
  struct View {
    std::vector<Open> open;
    uint64_t ended = 0;  // how many have, in all

    // Of those that hold this stream of the context the first one; null: none does.
    const Open* Find(CUstream stream, CUcontext context) const;
  };

  // `driver` outlives it. `on_end` is called with the time; it must not call back. Without it no wait is known.
  HeldStreams(const DriverTable& driver, std::function<void(uint64_t now_ns)> on_end);

  // A function is about to be enqueued. `current`: the calling thread's context. The executor.
  Wait Expect(CUstream stream, CUcontext current) EXCLUDES(mutex_);
  // 0: it is not known.
  uint64_t Began(const Wait& wait) EXCLUDES(mutex_);
  void Ended(uint64_t number) EXCLUDES(mutex_);
  // A stream is about to be destroyed.
  void StreamGoes() EXCLUDES(mutex_);

  // The executor's part.
  View Look() EXCLUDES(mutex_);
  // `action` says that the session rests, if none has ended since `view`; else false, and it was not called. From then on it is
  // `on_end` that says that the session works, until GoOn().
  bool Rest(const View& view, const std::function<void()>& action) EXCLUDES(mutex_);
  // It is the executor again. When the first wait ended since Rest(); 0: none did.
  uint64_t GoOn() EXCLUDES(mutex_);
  // Since when this stream of the context waits; 0: it does not. Costs no more than a look while none does.
  uint64_t SinceNs(CUstream stream, CUcontext context) EXCLUDES(mutex_);
  // One has ended since Rest(). Costs no more than a look.
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
