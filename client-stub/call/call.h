// One call of the application, from entry to return. Every entry point, generated or handwritten, is built on it.
//
//   CUresult Enter_cuEventRecord(bool per_thread, CUevent hEvent, CUstream hStream) {   // generated
//     Call call(kInfo_cuEventRecord, per_thread);
//     cuEventRecordRequest request;
//     request.hEvent = call.Use(HandleKind::kEvent, hEvent);
//     request.hStream = call.UseStream(hStream);
//     if (!call.ok()) return call.result();
//     return call.Async(request);
//   }
//
// A Call lives on the stack of the application's thread that made the call and is used by that thread alone.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/session/basic_call.h"
#include "client-stub/session/session_place.h"

namespace tessera {

struct UsedStream;  // streams/stream_state.h

class Call : public BasicCall {
 public:
  // Checks, in this order, what every driver call checks: the process did not fork since (3), cuInit was called (3),
  // the call is allowed in a host function (800), the calling thread has a usable context (201, 709), its legality
  // during stream capture (900), an earlier asynchronous failure. The first failure makes ok() false.
  Call(const CallInfo& info, bool per_thread_stream);

  // Choose the session of a call, when there are several (call_routing.cc). It begins as the session of the thread's current
  // context. Generated entries then route it to the session of what the call names: devices first, then handles, then addresses,
  // in the order of the parameters. The first that belongs to a session decides; objects of other sessions are unknown there. A
  // call that is moved acts in the context of what it names. Libraries and kernels decide nothing: they are loaded where they are
  // used (library_copies.h).
  void RouteToDevice(CUdevice device);
  void RouteToDevices(const CUmemLocation& location);
  void RouteToDevices(const CUmemAllocationProp& properties) { RouteToDevices(properties.location); }
  void RouteToDevices(const CUmemPoolProps& properties) { RouteToDevices(properties.location); }
  void RouteToDevices(const CUmemAccessDesc& access) { RouteToDevices(access.location); }
  void RouteToHandle(uint64_t handle);
  void RouteToHandle(const void* handle) { RouteToHandle(reinterpret_cast<uint64_t>(handle)); }
  void RouteToHandle(CUgraphExec handle);  // perhaps the driver's own value (device_graphs.h)
  void RouteToAddress(uint64_t address);

  // A handle the application passed: its id when it is live and of this kind, else the call fails with the kind's code (or
  // `error` when not 0) and a zero id is returned. (The id is the handle itself, except for a device graph: device_graphs.h.) A
  // null handle with `nullable` gives a zero id.
  HandleId Use(HandleKind kind, const void* handle, bool nullable = false, int error = 0) {
    return Use(kind, reinterpret_cast<uint64_t>(handle), nullable, error);
  }
  HandleId Use(HandleKind kind, uint64_t handle, bool nullable = false, int error = 0);
  // As Use for streams: 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are passed on as they are. For rows with capture = "legal"
  // it checks the stream's capture (900 to 907). A call that becomes a node of a graph is sent synchronously, so that it returns
  // its own error.
  HandleId UseStream(CUstream stream);
  // The context that owns a stream of UseStream(); for default streams the owner of the current context.
  HandleId StreamOwner(HandleId stream) const;
  // As Use; the handle is no longer live once the call was sent (async) or succeeded (sync).
  HandleId Free(HandleKind kind, const void* handle, bool nullable = false, int error = 0) {
    return Free(kind, reinterpret_cast<uint64_t>(handle), nullable, error);
  }
  HandleId Free(HandleKind kind, uint64_t handle, bool nullable = false, int error = 0);

  // As Sync(request), for a call after which the application relies on earlier work (synchronise, query, copy). If the server has
  // reported a failure of that work meanwhile, it is this call's result. Not for calls whose own effect would be lost.
  template <TouchesNothing Request>
  CUresult SyncWork(const Request& request) {
    const CUresult result = Sync(request);
    if (result != CUDA_SUCCESS) return result;
    AfterWait();
    return TakeDeferredError();
  }

  // Ends a call that was answered here in the same way: the work on which it relies is known to be done.
  CUresult FinishWork() {
    AfterWait();
    return TakeDeferredError();
  }

 private:
  // As Use() for a handle of another session: a library or kernel has a copy in this one, anything else is unknown.
  HandleId UseCopy(HandleKind kind, HandleId id);
  // The call names a live stream or event.
  void NoteNamed(HandleKind kind, HandleId id);
  // When a call that waited returns, registered memory is up to date (host_mirrors.h), and pools of host memory have given back
  // what they need not keep (host_pools.h).
  void AfterWait();

  HandleId stream_owner_;  // set by UseStream(), if it knows it
};

// As Call::UseStream, then FindStream (stream_state.h); false when the call failed. Captures are checked for rows with
// capture = "legal" only.
bool UseStreamInfo(Call& call, CUstream stream, UsedStream* used);

// The body of every call of mode `unsupported`: returns 801, and logs the reason once.
CUresult Unsupported(const CallInfo& info);

}  // namespace tessera
