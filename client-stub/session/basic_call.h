// The base of every call of the application: its thread, session and context, its result, the handles that it makes, and how it
// sends records. Call (call/call.h) adds the checks of arguments and the choice of the session. The library's own actions are
// BasicCalls. Rooms below `call/` see an application's call as a BasicCall too.
//
// A BasicCall lives on the stack of the thread that makes the call and is used by that thread alone.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

#include "client-stub/process/call_info.h"
#include "client-stub/session/last_sequence.h"
#include "client-stub/session/thread_state.h"
#include "protocol/runtime/touches.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Client;    // client.h
class Session;   // one client process' use of one server: session.h
struct Context;  // context.h

class BasicCall {
 public:
  // A call of the library on behalf of `user`, in the same session and context.
  BasicCall(const CallInfo& info, const BasicCall& user);
  // A call of the library in an active context. An earlier failure of the context becomes this call's, if the spec's row says so.
  BasicCall(const CallInfo& info, const Context& context);
  // A call of the library in no context.
  BasicCall(const CallInfo& info, Session& session);
  ~BasicCall();
  BasicCall(const BasicCall&) = delete;
  BasicCall& operator=(const BasicCall&) = delete;

  bool ok() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  // Ends the call with a result of the client's. Returns `result`, for `return call.Fail(...)`.
  CUresult Fail(CUresult result) { return result_ = result; }
  // Ends the call because a call in another context has failed, unless this one has failed already. A code that says that a
  // context is broken does not mean this call's context.
  CUresult FailElsewhere(CUresult result) {
    if (result_ != CUDA_SUCCESS) return result_;
    failed_elsewhere_ = true;
    return result_ = result;
  }

  const CallInfo& info() const { return info_; }
  bool per_thread_stream() const { return per_thread_stream_; }
  // Whether the stream that the call names is being captured.
  bool capturing() const { return capture_failed_ != nullptr; }
  ThreadState& thread() { return *thread_; }
  Session& session() { return *session_; }
  // The calling thread's current context (0: none).
  HandleId context() const { return context_; }
  // The context that owns memory, modules and events of this call: the current one, or the primary context of a green one.
  HandleId owner_context() const;
  // For calls that need no current context since they name an object that has one (a stream, an event). If the calling thread has
  // no context the record names the object's.
  void UseContextOf(HandleId context) {
    object_context_ = context;
    if (context_.is_null()) context_ = context;
  }

  // Moves the call to this session, into `context` (null: any active one).
  void MoveTo(Session& session, const Context* context = nullptr);
  // Moves the call to the session and context of another call, on whose behalf it is made.
  void MoveTo(const BasicCall& call);
  // Acts in another context of the same session: that of the stream, where this matters to the server.
  void ActIn(HandleId context);
  // The context in which the call acts: the current one when the call was made, unless it was moved. Null: none.
  Context* current_context() const;

  // The server's number for a device that the application passed. A device of another session fails the call with
  // CUDA_ERROR_INVALID_DEVICE. An unknown number is returned unchanged, so that the server's driver refuses it.
  CUdevice DeviceNumber(CUdevice device);
  CUmemLocation DeviceNumbers(CUmemLocation location);
  CUmemAllocationProp DeviceNumbers(CUmemAllocationProp properties);
  CUmemPoolProps DeviceNumbers(CUmemPoolProps properties);
  CUmemAccessDesc DeviceNumbers(CUmemAccessDesc access);
  // The application's number for a device that the server answered.
  CUdevice Ordinal(int number) const;
  CUmemAllocationProp Ordinals(CUmemAllocationProp properties) const;

  // A new handle. It is live from now on; ~Call releases it if the call failed.
  HandleId Mint(HandleKind kind);
  // A handle in the server's answer becomes live here, if the server minted it.
  void Adopt(HandleId id);
  // The handle is no longer live: it ended together with another object, as a function does with its module.
  void Release(HandleId id);

  // Appends the record and returns at once. CUDA_SUCCESS, or why it could not be sent. With launch blocking
  // (CUDA_LAUNCH_BLOCKING) it waits for the result like Sync. These functions do not take records by which the device touches the
  // program's memory. Only client-stub/device_work/device_work.h appends those, since it prepares the memory.
  template <TouchesNothing Request>
  CUresult Async(const Request& request) {
    return AsyncAny(request);
  }
  // Appends the record and waits. `reply` is decoded only when CUDA's result is CUDA_SUCCESS or carries outputs.
  template <TouchesNothing Request, typename Reply>
  CUresult Sync(const Request& request, Reply* reply) {
    return SyncAny(request, reply);
  }
  template <TouchesNothing Request>
  CUresult Sync(const Request& request) {
    return SyncAny(request);
  }

  // As Async and Sync, for a record of another call or of Tessera's own (Request::kId), made on behalf of this call.
  template <TouchesNothing Request>
  CUresult AsyncAs(const Request& request) {
    return As<Request>().AsyncAny(request);
  }
  template <TouchesNothing Request>
  CUresult SyncAs(const Request& request) {
    return As<Request>().SyncAny(request);
  }
  template <TouchesNothing Request, typename Reply>
  CUresult SyncAs(const Request& request, Reply* reply) {
    return As<Request>().SyncAny(request, reply);
  }
  // The same for the library's own work on the device, with any request. It needs no preparation of the program's memory: it
  // concerns staging, shadows, pages of managed memory, or no memory at all.
  template <typename Request>
  CUresult AsyncOwn(const Request& request) {
    return As<Request>().AsyncAny(request);
  }
  template <typename Request>
  CUresult SyncOwn(const Request& request) {
    return As<Request>().SyncAny(request);
  }

  // The records of this call change an object. `last` becomes the sequence of each record that goes into the ring of commands, as
  // it does for the streams and events that the call names (StreamInfo, EventInfo). Questions change nothing. A call has at most
  // kChangesMax such objects. False: there are too many; `last` will not be raised.
  bool Changes(LastSequence* last) {
    if (changes_count_ == kChangesMax) return false;
    changes_[changes_count_++] = last;
    return true;
  }
  // Takes Changes(last) back. Does nothing for null or for another object.
  void ChangesNot(LastSequence* last);
  // The sequence of the last record of this call that went into the ring of commands; 0: none did.
  uint64_t sequence() const { return sequence_; }

  // From now on the records of this call are those of `record_call`, whose work it does.
  void ActAs(uint32_t record_call) { own_record_call_ = record_call; }

  // Ends the session, since no correct server sends this answer. For generated code, and for bodies that find a reply longer than
  // the caller's memory.
  CUresult MalformedReply();

 protected:
  // The three steps of the functions above. Begin() hands out this thread's scratch encoder with room for the header; the record
  // is complete when a Send function is called. The decoder's bytes stay valid until the thread's next call.
  Encoder& Begin();
  CUresult SendAsync();
  CUresult SendSync(Decoder* reply);

  // Called when the server has refused a call that became a node of `stream`'s capture.
  using CaptureFailed = void (*)(BasicCall& call, CUstream stream);

  // For Call, which finds the session later.
  BasicCall(const CallInfo& info, bool per_thread_stream, ThreadState& thread)
      : info_(info), thread_(&thread), per_thread_stream_(per_thread_stream), own_record_call_(info.id) {
    ++thread.call_depth;
  }
  // Begins statistics and traces.
  void BeginWatched(Client& client);
  // Takes the failure of an earlier asynchronous call of the thread, if there is one, as this call's result.
  CUresult TakeDeferredError();
  // The calling thread has no usable context. Whether the call needs none, or finds another.
  bool FindContext();
  CUresult NoContext() const;  // 201, or 709 when it is gone
  // The call asks about streams and events, and changes none.
  bool IsQuestion() const { return info_.aside && info_.mode == CallInfo::Mode::kSync; }
  // From now on the call becomes a node of what `stream` captures.
  void BecomesNode(CUstream stream, CaptureFailed failed) {
    capture_stream_ = stream;
    capture_failed_ = failed;
  }

  const CallInfo& info_;
  ThreadState* const thread_;
  Session* session_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
  HandleId context_;
  HandleId freed_;
  uint64_t after_ = 0;   // the last record about an object that the call names; kept in host functions only
  bool routed_ = false;  // an argument belongs to session_
  bool moved_ = false;   // session_ is not the session of the thread's current context

 private:
  static constexpr int kChangesMax = 24;
  friend class WorkOnAnything;  // client-stub/device_work/device_work.h
  friend class WorkOnRanges;

  template <typename Request>
  CUresult AsyncAny(const Request& request) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    return SendAsync();
  }
  // As AsyncAny, if all of `seen` are still unchanged when the record gets its place in the ring (Session::AppendIf). Otherwise
  // Session::kNotAppended: nothing was sent, and the call goes on. Not for calls that free a handle, are captured or wait for
  // their results.
  template <typename Request>
  CUresult AsyncIfAny(std::span<const SeenSequence> seen, const Request& request) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    return SendAsyncIf(seen);
  }
  template <typename Request, typename Reply>
  CUresult SyncAny(const Request& request, Reply* reply) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    Decoder decoder;
    const CUresult result = SendSync(&decoder);
    if (result == CUDA_SUCCESS && !reply->Decode(decoder)) return MalformedReply();
    return result;
  }
  template <typename Request>
  CUresult SyncAny(const Request& request) {
    Encoder& encoder = Begin();
    request.Encode(encoder);
    Decoder decoder;
    return SendSync(&decoder);
  }
  // Begins a record of this type.
  template <typename Request>
  BasicCall& As() {
    record_call_ = Request::kId;
    return *this;
  }

  std::span<std::byte> CompleteRecord();
  CUresult SendAsyncWatched(std::span<std::byte> record);
  CUresult SendAsyncIf(std::span<const SeenSequence> seen);
  CUresult SendAndWait(std::span<std::byte> record);
  // Whether the record first goes past the ring of commands, since a host function makes the call.
  bool GoesAside(std::span<const std::byte> record) const;
  CUresult RequestAside(std::span<const std::byte> record);
  void NoteSent(uint64_t sequence);

  const bool per_thread_stream_;
  uint32_t own_record_call_;
  uint32_t record_call_ = 0;  // the type of the next record, if not 0
  HandleId object_context_;   // of the stream or event that the call names
  HandleId minted_[2];        // no call mints more than two single handles; arrays keep theirs in the request
  int minted_count_ = 0;
  uint32_t waits_before_;  // the thread's `waits` when begun_ns_ was set
  uint64_t begun_ns_ = 0;  // while a trace is kept
  uint64_t sequence_ = 0;
  LastSequence* changes_[kChangesMax];
  int changes_count_ = 0;
  bool failed_elsewhere_ = false;
  CUstream capture_stream_ = nullptr;
  CaptureFailed capture_failed_ = nullptr;  // null: the stream is not captured
};

}  // namespace tessera
