// The worker's half of deliveries (protocol/memory/delivery.h): small copies to pinned memory that only the client has, without
// any wait of the stream for the client.
//
// The stream copies into a slot of this process and then writes a word beside it. Whoever is about to send something from which
// the client could know that the copy is done looks at those words first and tells the bytes of all copies that are (Tell(), by
// ReplyWriter::BeforeSending): no call of the driver, which may be holding its locks for a launch that waits for that very
// message. Completion tells them in any case, since a program may be waiting for the bytes without a call.
//
// Copies of one stream are told in their order. Those of several streams are told in any order: of two that write the same
// bytes the client makes at most one a delivery, unless they are of the same stream.
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

class Deliveries {
 public:
  // `before` tells the client what else it must know before it sees what a copy wrote. Completion thread, or that of Start().
  Deliveries(Worker& worker, std::function<void()> before) : worker_(worker), before_(std::move(before)) {}

  // Whether there can be deliveries in the current context, for which this makes what they need: CUDA_SUCCESS, or
  // CUDA_ERROR_NOT_SUPPORTED where the device writes no words, the driver does not register the slots, and in green contexts. As
  // long as the context lives the answer is the same. Executor thread.
  CUresult Prepare(CallContext& call) EXCLUDES(mutex_);
  // Enqueues the copy of `bytes` (up to kDeliveryBytesMax) at `source` as delivery `number` of the client, and ends the call.
  // `stream` is what the call made of `id`, and is not captured. A copy that fails is told too. CUDA_ERROR_NOT_SUPPORTED for a
  // stream of another context than the current one and where Prepare() says so; CUDA_ERROR_OUT_OF_MEMORY beyond the bounds: a
  // correct client asks for none of these. Executor thread.
  void Start(CallContext& call, HandleId id, CUstream stream, uint64_t number, CUdeviceptr source, uint64_t bytes)
      EXCLUDES(mutex_);
  // A delivery that was not started: ends the call.
  void Refuse(CallContext& call, uint64_t number, CUresult result);

  // Tells the bytes of all copies that are done. When this returns they have been sent, whoever sent them. Nothing to do, and
  // quick, while there is no delivery. May wait for room in the ring of replies. Any thread, a driver's callback thread too.
  void Tell() EXCLUDES(mutex_);

  // The context is about to be destroyed or reset, its work is done and it is current. Helper threads.
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

  // Null where the device cannot write words, or the driver does not register them.
  std::shared_ptr<Slots> SlotsOf(CUcontext context) EXCLUDES(mutex_);
  // Enters a delivery; false when there is no slot.
  bool Enter(const StreamKey& key, Delivery& delivery) EXCLUDES(mutex_);
  // The copy has been done, and so are those before it in its stream; or it has failed.
  void Ended(const StreamKey& key, uint64_t number, CUresult result) EXCLUDES(mutex_);
  // Leaves out one that failed. Its slot is not used again: the driver may still be writing it.
  void Drop(const StreamKey& key, uint64_t number, CUresult result) EXCLUDES(mutex_);
  void TellFirst(Line& line) REQUIRES(mutex_);

  Worker& worker_;
  const std::function<void()> before_;
  std::atomic<size_t> count_{0};  // in all lines; what is in none has been told
  Mutex mutex_;                   // held while something is told: what was taken out has been sent when it is free
  std::map<CUcontext, std::shared_ptr<Slots>> slots_ GUARDED_BY(mutex_);  // null: there are none
  std::map<StreamKey, Line> lines_ GUARDED_BY(mutex_);
};

}  // namespace tessera
