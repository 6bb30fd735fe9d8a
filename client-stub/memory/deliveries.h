// Small asynchronous copies from device memory to pinned memory, where no pages are shared. The stream does not wait for this
// process, and the caller waits for nothing. The server sends the bytes (kDelivery) before anything that tells the program that
// the copy is done: the answer to a synchronise or query, a mark, the request for a host function, or what a later kernel wrote
// to mapped memory. The thread that reads the ring of replies writes the bytes to their destination. See also
// protocol/memory/delivery.h and server/worker/memory/deliveries.h.
//
// A copy is no delivery if it - is larger than a delivery may be, or comes while the server may have no room for it; - writes
// memory that has a mirror: kernels read it on the server's side (host_mirrors.h); - writes bytes that a copy in another stream
// has not written yet: the order of the two is that of their streams, which is not
//   known here. Within one stream copies are told in order;
// - is for a stream of another context than the current one, a green context's, or on a device that does not write words; - is in
// a context where the server's driver refuses what deliveries need: the server is asked once, before the first one. Such copies
// are visits, as ever (copy_in_order.h). A copy to the device, a host function or a visit that reads the memory in stream order
// finds the bytes: the server asks for all of these, and sends the bytes first.
//
// Known limits. A program that polls such memory without a call sees writes in the order of each stream, but perhaps before what
// the same stream wrote to mapped memory. An event that other processes see is behind a visit, so they cannot tell this process
// of it before the bytes come. What they learn in other ways may come sooner. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "client-stub/session/basic_call.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/record.h"

namespace tessera {

class Session;
struct UsedStream;             // stream_state.h
struct tesseraDeliverRequest;  // generated/messages/service.h

class Deliveries {
 public:
  explicit Deliveries(Session& session);

  // Appends the record.
  using Send = std::function<CUresult(const tesseraDeliverRequest& request)>;
  // Enqueues the copy of device memory at `from` to `to`, memory that only this process has. The stream is not captured. Returns
  // the call's result; nullopt: the copy has to be done in another way.
  std::optional<CUresult> Copy(BasicCall& call, const UsedStream& stream, const Range& to, uint64_t from, const Send& send)
      EXCLUDES(mutex_);

  // Whether a delivery was ever asked for.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // From now on no copy to `range` is a delivery, until Admit() of its base. For memory that gets a mirror.
  void Exclude(const Range& range) EXCLUDES(mutex_);
  void Admit(uint64_t base) EXCLUDES(mutex_);
  // Whether a delivery is under way to memory that was excluded meanwhile. Its bytes count as a change by this side, so work that
  // may use the mirror has to meet this process first.
  bool AnyLate() EXCLUDES(mutex_);
  // The memory ends: what still comes for it is dropped. When this returns nothing is written to it any more.
  void Forget(const Range& range) EXCLUDES(mutex_);
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Delivery {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint64_t stream = 0;  // StreamInfo::number
    HandleId context;
    bool forgotten = false;
  };
  using Deliveries_ = std::multimap<uint64_t, Delivery>;  // by destination

  // Whether the server has deliveries in the context of the call and the stream. Asks the server if that is not known; a failure
  // is the call's.
  CUresult MayDeliver(BasicCall& call, const UsedStream& stream, bool* may) EXCLUDES(mutex_);
  // A number for the copy, 0 when it cannot be a delivery.
  uint64_t Enter(const UsedStream& stream, const Range& to) EXCLUDES(mutex_);
  void Drop(uint64_t number) EXCLUDES(mutex_);
  void Erase(Deliveries_::iterator delivery) REQUIRES(mutex_);
  void Arrived(const ReplyHeader& header, std::span<const std::byte> bytes) EXCLUDES(mutex_);
  // Calls `visit(iterator)` for each delivery that is not forgotten and writes bytes of `range`. Ends, with false, when `visit`
  // returns false.
  template <typename Visit>
  bool ForEachIn(const Range& range, const Visit& visit) REQUIRES(mutex_);

  Session& session_;
  std::atomic<bool> used_{false};
  std::atomic<bool> late_{false};  // AnyLate() has to look
  // Held while the program's memory is written. So whoever finds no delivery for the memory finds the bytes.
  Mutex mutex_;
  uint64_t next_ GUARDED_BY(mutex_) = 1;
  size_t small_ GUARDED_BY(mutex_) = 0;  // how many there are
  size_t large_ GUARDED_BY(mutex_) = 0;
  Deliveries_ by_address_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Deliveries_::iterator> by_number_ GUARDED_BY(mutex_);
  std::map<uint64_t, Range> excluded_ GUARDED_BY(mutex_);    // by base
  std::map<uint64_t, bool> may_deliver_ GUARDED_BY(mutex_);  // by context; none: the server was not asked yet
};

}  // namespace tessera
