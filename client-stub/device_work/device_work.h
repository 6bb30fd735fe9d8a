// These two classes send all records by which the application's calls make the device touch the program's memory. BasicCall takes
// no such record (protocol/runtime/touches.h), so nobody can forget what has to be done around it.
//
//   kernels, graphs, words that a stream writes (`work` in protocol/spec: launch, graph, value)
//     return WorkOnAnything(call).Async(request);
//   copies and sets
//     WorkOnRanges work(call, stream, written, read);
//     if (work.result() != CUDA_SUCCESS) return work.result();
//     ... any number of records: work.Async(request) ...
//
// Around a record they do the following. Host memory gets a mirror if the record shows an address in it, and mirrors are up to
// date for the work (host_mirrors.h). Managed memory is on the device, and touches of it wait for the work (managed_memory.h).
// Without such memory each of the two costs a load. A captured record needs none of this: the graph's launch does it.
//
// Both live on the stack of the calling thread, no longer than the call. Errors: the call has failed with what is returned.
#pragma once

#include <cuda.h>

#include <functional>
#include <optional>
#include <span>

#include "client-stub/call/call.h"
#include "client-stub/device_work/managed_work.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "protocol/runtime/touches.h"

namespace tessera {

// Whether there is memory to prepare for work. Usually there is none.
inline bool AnyToPrepare(Session& session, bool managed) {
  return session.memory().mirrors().any() || (managed && ManagedMemory::Of(session).any());
}

// Makes mirrors of the memory whose addresses a record shows the device.
inline CUresult OpenSeen(BasicCall& call, std::span<const std::byte> values) {
  return call.session().mirrored() ? call.session().memory().mirrors().OpenSeen(call, values) : CUDA_SUCCESS;
}

// Work that may touch any memory, in one record, for the streams that it names.
class WorkOnAnything {
 public:
  explicit WorkOnAnything(Call& call) : call_(call) {}
  WorkOnAnything(const WorkOnAnything&) = delete;
  WorkOnAnything& operator=(const WorkOnAnything&) = delete;

  // As those of BasicCall.
  template <typename Request>
  CUresult Async(const Request& request) {
    return Surrounded(request, [&call = call_, &request] { return call.AsyncAny(request); });
  }
  template <typename Request>
  CUresult Sync(const Request& request) {
    return Surrounded(request, [&call = call_, &request] { return call.SyncAny(request); });
  }
  template <typename Request, typename Reply>
  CUresult Sync(const Request& request, Reply* reply) {
    return Surrounded(request, [&call = call_, &request, reply] { return call.SyncAny(request, reply); });
  }

 private:
  template <typename Request, typename Append>
  CUresult Surrounded(const Request& request, Append append) {
    constexpr Touches kTouches = TouchesOf<Request>();
    static_assert(kTouches == Touches::kAnything || kTouches == Touches::kMirrors);
    // Words that a stream writes to managed memory are undefined, as natively.
    constexpr bool kManaged = kTouches == Touches::kAnything;
    if constexpr (requires { request.parameters; }) {
      if (const CUresult opened = OpenSeen(call_, request.parameters); opened != CUDA_SUCCESS) return opened;
    }
    if (!AnyToPrepare(call_.session(), kManaged)) [[likely]]
      return append();
    const Append there = append;  // on the usual way nothing is kept in memory for this one
    return Around(call_, request.Streams(), kManaged, std::ref(there));
  }
  // Appends the record, with what has to be done for each of the streams.
  static CUresult Around(Call& call, std::span<const HandleId> streams, bool managed, const std::function<CUresult()>& append);

  Call& call_;
};

// A copy or a set: work that touches what it names. It may take any number of records, all while this object lives.
class WorkOnRanges {
 public:
  // `written`, `read`: the device memory, managed or not; empty: none. Host memory that the server does not reach is not named:
  // the library moves its bytes.
  WorkOnRanges(Call& call, HandleId stream, const Range& written, const Range& read) : call_(call) {
    if (AnyToPrepare(call.session(), true)) [[unlikely]]
      Begin(stream, written, read);
  }
  WorkOnRanges(const WorkOnRanges&) = delete;
  WorkOnRanges& operator=(const WorkOnRanges&) = delete;

  // Not CUDA_SUCCESS: the call has failed with it, and nothing may be appended.
  CUresult result() const { return result_; }

  // As those of BasicCall and Call.
  template <typename Request>
  CUresult Async(const Request& request) {
    return Shown(request, [&] { return call_.AsyncAny(request); });
  }
  template <typename Request>
  CUresult AsyncAs(const Request& request) {
    return Shown(request, [&] { return call_.As<Request>().AsyncAny(request); });
  }
  template <typename Request>
  CUresult AsyncIf(std::span<const SeenSequence> seen, const Request& request) {
    return Shown(request, [&] { return call_.AsyncIfAny(seen, request); });
  }
  template <typename Request>
  CUresult Sync(const Request& request) {
    return Shown(request, [&] { return call_.SyncAny(request); });
  }
  template <typename Request>
  CUresult SyncWork(const Request& request) {
    const CUresult result = Sync(request);
    return result == CUDA_SUCCESS ? call_.FinishWork() : result;
  }

 private:
  template <typename Request, typename Append>
  CUresult Shown(const Request& request, const Append& append) {
    static_assert(TouchesOf<Request>() == Touches::kRanges);
    if constexpr (requires { request.data; }) {  // a table of pointers, perhaps, or a structure that has one
      if (const CUresult opened = OpenSeen(call_, request.data); opened != CUDA_SUCCESS) return opened;
    }
    return append();
  }
  void Begin(HandleId stream, const Range& written, const Range& read);

  Call& call_;
  CUresult result_ = CUDA_SUCCESS;
  std::optional<ManagedWork> managed_;
};

}  // namespace tessera
