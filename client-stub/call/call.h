// One call of the application, from entry to return: what every generated and handwritten entry point is built on.
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

#include <atomic>
#include <cstdint>
#include <span>

#include "client-stub/session/last_sequence.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Session;       // one client process' use of one server: session.h
struct Context;      // context.h
struct ThreadState;  // what the stub keeps per application thread: thread_state.h

// The process uses several servers: a call has to find out which one it is for (Call::Route...). Written when the sessions are
// made.
extern std::atomic<bool> several_servers;
inline bool SeveralServers() { return several_servers.load(std::memory_order_relaxed); }

// What the spec says of a call; one constant per call is generated (kInfo_<name>).
struct CallInfo {
  enum class Mode : uint8_t { kLocal, kCached, kAsync, kSync, kUnsupported };
  enum class Context : uint8_t { kRequired, kNone, kStream, kAny, kUninitialized };
  enum class Capture : uint8_t { kLegal, kUnsafe, kQuery };
  const char* name;
  uint32_t id;
  Mode mode;
  Context context;
  Capture capture;
  bool deferred_errors;  // an earlier asynchronous failure may be returned by this call
  const char* reason;    // of mode kUnsupported
  bool aside = false;    // from a host function it goes past the commands (Session::RequestAside)
};

class Call {
 public:
  // Checks, in this order, what every driver call checks: the process did not fork since (3), cuInit was called (3),
  // the call is allowed in a host function (800), the calling thread has a usable context (201, 709), its legality
  // during stream capture (900), an earlier asynchronous failure. The first failure makes ok() false.
  Call(const CallInfo& info, bool per_thread_stream);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool ok() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  // Ends the call with the client's own verdict; returns `result` for `return call.Fail(...)`.
  CUresult Fail(CUresult result) { return result_ = result; }
  // Ends it because of what a call in another context has met, unless it has failed by itself: whatever the code says of a
  // context, it is not this call's that is broken.
  CUresult FailElsewhere(CUresult result) {
    if (result_ != CUDA_SUCCESS) return result_;
    failed_elsewhere_ = true;
    return result_ = result;
  }

  const CallInfo& info() const { return info_; }
  bool per_thread_stream() const { return per_thread_stream_; }
  // The stream that the call named is being captured.
  bool capturing() const { return capturing_; }
  ThreadState& thread() { return *thread_; }
  Session& session() { return *session_; }
  // The calling thread's current context (0: none).
  HandleId context() const { return context_; }
  // What owns memory, modules and events made by this call: the current context, or behind a green one the primary.
  HandleId owner_context() const;
  // For calls that need no current context because they name an object that has one (a stream, an event): the record
  // says that one when the calling thread has none.
  void UseContextOf(HandleId context) {
    object_context_ = context;
    if (context_.is_null()) context_ = context;
  }

  // Which session a call is for, when there are several (call_routing.cc). It begins as that of the thread's current context;
  // generated entries then route it to whoever has what the call names: devices first, then handles, then addresses, in the
  // order of the parameters. The first that belongs to a session decides; what belongs to another one is unknown there.
  // A call that is moved acts in the context of what it names. Libraries and kernels decide nothing: they are loaded where they
  // are used (library_copies.h).
  void RouteToDevice(CUdevice device);
  void RouteToDevices(const CUmemLocation& location);
  void RouteToDevices(const CUmemAllocationProp& properties) { RouteToDevices(properties.location); }
  void RouteToDevices(const CUmemPoolProps& properties) { RouteToDevices(properties.location); }
  void RouteToDevices(const CUmemAccessDesc& access) { RouteToDevices(access.location); }
  void RouteToHandle(uint64_t handle);
  void RouteToHandle(const void* handle) { RouteToHandle(reinterpret_cast<uint64_t>(handle)); }
  void RouteToHandle(CUgraphExec handle);  // maybe the driver's own (device_graphs.h)
  void RouteToAddress(uint64_t address);
  // To this session, in its context `context` (null: any that is active).
  void MoveTo(Session& session, const Context* context = nullptr);
  // To where another call went, on behalf of which this one is made.
  void MoveTo(const Call& call);
  // In another context of the same session: that of the stream it enqueues in, where it makes a difference to the server.
  void ActIn(HandleId context);
  // The context that the call acts in: the one that was current when it was made, unless it was moved. Null: there is none.
  Context* current_context() const;

  // The server's numbers for devices that the application passed. A device of another session fails the call with
  // CUDA_ERROR_INVALID_DEVICE; a number that is nobody's stays as it is, for the server's driver to refuse.
  CUdevice DeviceNumber(CUdevice device);
  CUmemLocation DeviceNumbers(CUmemLocation location);
  CUmemAllocationProp DeviceNumbers(CUmemAllocationProp properties);
  CUmemPoolProps DeviceNumbers(CUmemPoolProps properties);
  CUmemAccessDesc DeviceNumbers(CUmemAccessDesc access);
  // And back, of what the server answered.
  CUdevice Ordinal(int number) const;
  CUmemAllocationProp Ordinals(CUmemAllocationProp properties) const;

  // A handle the application passed: its id when it is live and of this kind, else the call fails with the kind's code
  // (or `error` when not 0) and a zero id is returned. (The id is the handle itself, but of a device graph: device_graphs.h.) A
  // null handle with `nullable` gives a zero id.
  HandleId Use(HandleKind kind, const void* handle, bool nullable = false, int error = 0);
  HandleId Use(HandleKind kind, uint64_t handle, bool nullable = false, int error = 0);
  // As Use for streams: 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are passed on as they are. For rows with
  // capture = "legal" the stream's capture has its say (900 to 907); a call that becomes a node of a graph is sent
  // synchronously, so that its own error comes back from it.
  HandleId UseStream(CUstream stream);
  // The context that owns a stream which UseStream returned; of default streams the current one's owner.
  HandleId StreamOwner(HandleId stream) const;
  // As Use; the handle is no longer live once the call was sent (async) or succeeded (sync).
  HandleId Free(HandleKind kind, const void* handle, bool nullable = false, int error = 0);
  HandleId Free(HandleKind kind, uint64_t handle, bool nullable = false, int error = 0);
  // A new handle; it is live from now on, and released again by ~Call when the call failed.
  HandleId Mint(HandleKind kind);
  // A handle the server answered with becomes live here when it is one the server minted.
  void Adopt(HandleId id);
  // A handle that ended together with another object (a function with its module) is no longer live.
  void Release(HandleId id);

  // Appends the record and returns at once. CUDA_SUCCESS, or why it could not be sent.
  // With launch blocking (CUDA_LAUNCH_BLOCKING) it waits for the result like Sync.
  template <typename Request>
  CUresult Async(const Request& request) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    return SendAsync();
  }
  // As Async, if all of `seen` are unchanged when the record gets its place among those of all threads (Session::AppendIf);
  // otherwise Session::kNotAppended: nothing was sent, and the call goes on. Not for calls that free a handle, are captured or
  // wait for their results.
  template <typename Request>
  CUresult AsyncIf(std::span<const SeenSequence> seen, const Request& request) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    return SendAsyncIf(seen);
  }
  // Appends the record and waits. `reply` is decoded only when CUDA's result is CUDA_SUCCESS or carries outputs.
  template <typename Request, typename Reply>
  CUresult Sync(const Request& request, Reply* reply) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    Decoder decoder;
    const CUresult result = SendSync(&decoder);
    if (result == CUDA_SUCCESS && !reply->Decode(decoder)) return MalformedReply();
    return result;
  }
  template <typename Request>
  CUresult Sync(const Request& request) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    Decoder decoder;
    return SendSync(&decoder);
  }

  // As Sync(request), for a call after which the application relies on earlier work (synchronise, query, copy): a
  // failure of that work which the server reported meanwhile is this call's result. Not for calls whose own effect
  // would be lost.
  template <typename Request>
  CUresult SyncWork(const Request& request) {
    const CUresult result = Sync(request);
    if (result != CUDA_SUCCESS) return result;
    AfterWait();
    return TakeDeferredError();
  }

  // The same end for a call that was answered here: the work it relies on is known to be done.
  CUresult FinishWork() {
    AfterWait();
    return TakeDeferredError();
  }

  // As Async and Sync, but the record is that of another call or of Tessera's own (Request::kId), made on behalf of this one.
  template <typename Request>
  CUresult AsyncAs(const Request& request) {
    record_call_ = Request::kId;
    return Async(request);
  }
  template <typename Request>
  CUresult SyncAs(const Request& request) {
    record_call_ = Request::kId;
    return Sync(request);
  }
  template <typename Request, typename Reply>
  CUresult SyncAs(const Request& request, Reply* reply) {
    record_call_ = Request::kId;
    return Sync(request, reply);
  }

  // The records of this call change the object: `last` becomes the sequence of each that goes into the ring of commands, as do
  // those of the streams and events that the call names (StreamInfo, EventInfo). Questions change nothing. No call has
  // more than kChangesMax.
  // False: no, it will not be raised.
  bool Changes(LastSequence* last);
  // Not after all; null or another one is nothing.
  void ChangesNot(LastSequence* last);
  // The sequence of the last record of this call that went into the ring of commands; 0: none did.
  uint64_t sequence() const { return sequence_; }

  // From now on the records of this call are those of another one, whose work it does.
  void ActAs(uint32_t record_call) { own_record_call_ = record_call; }

  // The three steps of the above, for bodies that write their message by hand. Begin() hands out this thread's scratch
  // encoder with room for the header; the record is complete when a Send function is called. The decoder's bytes stay
  // valid until the thread's next call.
  Encoder& Begin();
  CUresult SendAsync();
  CUresult SendSync(Decoder* reply);
  // The server's answer was not what a correct server sends: ends the session. For generated code, and for bodies that
  // find a reply too long for the caller's memory.
  CUresult MalformedReply();

 private:
  static constexpr int kChangesMax = 24;

  // Where the calling thread has no context to use: whether the call can do without, or finds another.
  bool FindContext();
  CUresult NoContext() const;  // 201, or 709 when it is gone

  // As Use() for a handle of another session: a library or kernel has a copy in this one, anything else is unknown.
  HandleId UseCopy(HandleKind kind, HandleId id);

  std::span<std::byte> CompleteRecord();
  CUresult SendAsyncWatched(std::span<std::byte> record);
  CUresult SendAsyncIf(std::span<const SeenSequence> seen);
  CUresult SendAndWait(std::span<std::byte> record);
  // It asks about streams and events, and changes none.
  bool IsQuestion() const { return info_.aside && info_.mode == CallInfo::Mode::kSync; }
  // The call names a live stream or event.
  void NoteNamed(HandleKind kind, HandleId id);
  // A host function makes this call: it is tried past the ring of commands first.
  bool GoesAside(std::span<const std::byte> record) const;
  CUresult RequestAside(std::span<const std::byte> record);
  void NoteSent(uint64_t sequence);
  CUresult TakeDeferredError();
  // When a call that waited returns, registered memory is up to date (host_mirrors.h), and pools of host memory have given back
  // what they need not keep (host_pools.h).
  void AfterWait();

  const CallInfo& info_;
  const bool per_thread_stream_;
  uint32_t own_record_call_;
  uint32_t record_call_ = 0;  // what the next record is, when not 0
  CUresult result_ = CUDA_SUCCESS;
  ThreadState* thread_ = nullptr;
  Session* session_ = nullptr;
  HandleId context_;
  HandleId object_context_;  // of the stream or event that the call names
  HandleId minted_[2];       // no call mints more than two singles; arrays keep theirs in the request
  int minted_count_ = 0;
  HandleId freed_;
  uint64_t begun_ns_ = 0;  // while a trace is kept
  uint64_t sequence_ = 0;
  uint64_t after_ = 0;  // the last record that concerns what the call names; kept in host functions only
  LastSequence* changes_[kChangesMax];
  int changes_count_ = 0;
  bool capturing_ = false;  // capture_stream_ is being captured
  bool routed_ = false;     // something named belongs to session_
  bool failed_elsewhere_ = false;
  bool moved_ = false;  // session_ is not that of the thread's current context
  CUstream capture_stream_ = nullptr;
  HandleId stream_owner_;  // where UseStream has come by it
};

// The body of every call of mode `unsupported`: 801, and the reason once in the log.
CUresult Unsupported(const CallInfo& info);

}  // namespace tessera
