// The worker's half of deliveries (protocol/memory/delivery.h): small copies to pinned memory that only the client has. The
// stream never waits for the client.
//
// The stream copies into a slot of this process, and then writes a word beside it. Some messages tell the client that a copy is
// done. Before such a message is sent, the sender looks at the words and sends the bytes of all copies that are done (Tell(),
// called by ReplyWriter::BeforeSending). Tell() makes no driver call: the driver may be holding its locks for a launch that waits
// for that very message. Completion also sends the bytes, since a program may wait for them without making a call.
//
// Copies of one stream are sent in their order. Copies of several streams are sent in any order. So if two copies write the same
// bytes, the client makes at most one of them a delivery, unless both are in the same stream.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "protocol/base/mutex.h"
#include "server/worker/call_context.h"
#include "server/worker/streams/stream_key.h"

namespace tessera {

class Worker;

class WorkerDeliveries {
 public:
  // `before` is called before a copy's bytes are sent, and sends what else the client must know by then. It runs on the
  // completion thread, or on the thread of Start().
  WorkerDeliveries(Worker& worker, std::function<void()> before) : worker_(worker), before_(std::move(before)) {}

  // Makes what deliveries in the current context need. CUDA_SUCCESS: there can be deliveries. CUDA_ERROR_NOT_SUPPORTED: the
  // device writes no words, the driver does not register the slots, or the context is a green one. The answer stays the same as
  // long as the context lives. Executor thread.
  CUresult Prepare(CallContext& call) EXCLUDES(mutex_);
  // Enqueues the copy of `bytes` (up to kDeliveryBytesMax) at `source` as the client's delivery `number`, and ends the call.
  // `stream` is what the call made of `id`, and is not being captured. The client is also told of a copy that fails.
  // CUDA_ERROR_NOT_SUPPORTED: the stream belongs to another context than the current one, or Prepare() says so.
  // CUDA_ERROR_OUT_OF_MEMORY: the bounds are exceeded. A correct client causes neither. Executor thread.
  void Start(CallContext& call, HandleId id, CUstream stream, uint64_t number, CUdeviceptr source, uint64_t bytes)
      EXCLUDES(mutex_);
  // Tells the client that a delivery was not started, with `result`, and ends the call.
  void Refuse(CallContext& call, uint64_t number, CUresult result);

  // Sends the bytes of all copies that are done. When this returns they have been sent, by whichever thread. Quick while there is
  // no delivery. May wait for room in the ring of replies. Any thread, also a callback thread of the driver.
  void Tell() EXCLUDES(mutex_);

  // Call this when the context is about to be destroyed or reset, its work is done, and it is current. Helper threads.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

 private:
  struct Slots;  // of one context
  struct Delivery {
    uint64_t number = 0;
    uint64_t bytes = 0;
    std::shared_ptr<Slots> slots;
    size_t slot = 0;
  };
  using Line = std::deque<Delivery>;  // of one stream, in its order

  // Returns null where the device cannot write words, or the driver does not register them.
  std::shared_ptr<Slots> SlotsOf(CUcontext context) EXCLUDES(mutex_);
  // Gives the delivery a slot and a place in its line. False: no slot is free.
  bool Enter(const StreamKey& key, Delivery& delivery) EXCLUDES(mutex_);
  // Takes the result of the copy: it is done, and so are the copies before it in its stream, or it has failed.
  void Ended(const StreamKey& key, uint64_t number, CUresult result) EXCLUDES(mutex_);
  // Removes a delivery that failed. Its slot is not used again, since the driver may still be writing to it.
  void Drop(const StreamKey& key, uint64_t number, CUresult result) EXCLUDES(mutex_);
  void TellFirst(Line& line) REQUIRES(mutex_);

  Worker& worker_;
  const std::function<void()> before_;
  std::atomic<size_t> count_{0};  // in all lines; a delivery in no line has been sent
  Mutex mutex_;                   // held while bytes are sent: once it is free, what left a line has been sent
  std::map<CUcontext, std::shared_ptr<Slots>> slots_ GUARDED_BY(mutex_);  // null: not possible
  std::map<StreamKey, Line> lines_ GUARDED_BY(mutex_);
};

}  // namespace tessera
