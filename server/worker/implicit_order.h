// Keeps small copies of pinned memory behind the work that they have to wait for.
//
// A copy to the device reads pinned memory when its stream comes to it. For a source of at most 24,576 bytes driver 580 reads it
// in the call already, if the stream itself has no unfinished work. It does not look at work of other streams that the default
// stream's rules put before the copy: the default stream waits for streams made without CU_STREAM_NON_BLOCKING, and they wait for
// it (CUDA Driver API, "Stream synchronization behavior"). So such a copy reads bytes that an earlier copy or host function is
// yet to write (measured: H100, driver 580.159.04; linear copies and boxes). The driver's synchronous forms are right, but here
// they are made of asynchronous ones. Work of the stream's own keeps the order, so it gets some before such a copy.
//
// A session whose streams are all of one kind pays nothing. Others pay a word that the stream writes, for small copies of pinned
// memory alone.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace tessera {

struct DriverTable;  // generated/driver_table.h
class DoneWords;     // done_words.h

class ImplicitOrder {
 public:
  // The largest source that the driver reads in the call.
  static constexpr uint64_t kReadInCallBytesMax = 24'576;

  // Both outlive it.
  ImplicitOrder(const DriverTable& driver, DoneWords& words) : driver_(driver), words_(words) {}

  // The default stream gets work; a stream is made that waits for it. Any thread.
  void NoteDefaultStream() { Note(&default_stream_used_); }
  void NoteBlockingStream() { Note(&blocking_stream_made_); }

  // Call it before a copy of `bytes` from pinned memory to the device is given to `stream`, a driver's stream or the default one
  // of the calling thread's current context. Not CUDA_SUCCESS: the driver's reason; the copy must not be made. Executor, aside
  // and helper threads.
  CUresult Keep(CUstream stream, uint64_t bytes);

 private:
  static void Note(std::atomic<bool>* fact) {
    if (!fact->load(std::memory_order_relaxed)) fact->store(true, std::memory_order_relaxed);
  }

  const DriverTable& driver_;
  DoneWords& words_;
  std::atomic<bool> default_stream_used_{false};
  std::atomic<bool> blocking_stream_made_{false};
};

}  // namespace tessera
