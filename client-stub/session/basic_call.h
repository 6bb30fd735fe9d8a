// What every call of the application has, whatever it is about: its thread, session and context, its verdict, the handles it
// makes, and how its records are sent. Call (call/call.h) adds the checks of its arguments and where it goes. What the library
// does of its own accord is a BasicCall, and so is a call to the folders below that one.
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
  // Of the library's own, in the name of another call: where that one went.
  BasicCall(const CallInfo& info, const BasicCall& user);
  // In a context that is active, whose earlier failure is the call's own where the row says so.
  BasicCall(const CallInfo& info, const Context& context);
  // In no context.
  BasicCall(const CallInfo& info, Session& session);
  ~BasicCall();
  BasicCall(const BasicCall&) = delete;
  BasicCall& operator=(const BasicCall&) = delete;

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
  bool capturing() const { return capture_failed_ != nullptr; }
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

  // To this session, in its context `context` (null: any that is active).
  void MoveTo(Session& session, const Context* context = nullptr);
  // To where another call went, on behalf of which this one is made.
  void MoveTo(const BasicCall& call);
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

  // A new handle; it is live from now on, and released again by ~Call when the call failed.
  HandleId Mint(HandleKind kind);
  // A handle the server answered with becomes live here when it is one the server minted.
  void Adopt(HandleId id);
  // A handle that ended together with another object (a function with its module) is no longer live.
  void Release(HandleId id);

  // Appends the record and returns at once. CUDA_SUCCESS, or why it could not be sent.
  // With launch blocking (CUDA_LAUNCH_BLOCKING) it waits for the result like Sync.
  // Records by which the device touches the program's memory are appended by client-stub/device_work/device_work.h alone, which
  // prepares that memory: none of these functions takes them.
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

  // As Async and Sync, but the record is that of another call or of Tessera's own (Request::kId), made on behalf of this one.
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
  // The same of work that the library gives the device of its own accord, for any request. The program's memory needs no
  // preparing for it: it has to do with staging, shadows, pages of managed memory, or with no memory at all.
  template <typename Request>
  CUresult AsyncOwn(const Request& request) {
    return As<Request>().AsyncAny(request);
  }
  template <typename Request>
  CUresult SyncOwn(const Request& request) {
    return As<Request>().SyncAny(request);
  }

  // The records of this call change the object: `last` becomes the sequence of each that goes into the ring of commands, as do
  // those of the streams and events that the call names (StreamInfo, EventInfo). Questions change nothing. No call has
  // more than kChangesMax.
  // False: no, it will not be raised.
  bool Changes(LastSequence* last) {
    if (changes_count_ == kChangesMax) return false;
    changes_[changes_count_++] = last;
    return true;
  }
  // Not after all; null or another one is nothing.
  void ChangesNot(LastSequence* last);
  // The sequence of the last record of this call that went into the ring of commands; 0: none did.
  uint64_t sequence() const { return sequence_; }

  // From now on the records of this call are those of another one, whose work it does.
  void ActAs(uint32_t record_call) { own_record_call_ = record_call; }

  // The server's answer was not what a correct server sends: ends the session. For generated code, and for bodies that
  // find a reply too long for the caller's memory.
  CUresult MalformedReply();

 protected:
  // The three steps of the functions above. Begin() hands out this thread's scratch encoder with room for the header; the record
  // is complete when a Send function is called. The decoder's bytes stay valid until the thread's next call.
  Encoder& Begin();
  CUresult SendAsync();
  CUresult SendSync(Decoder* reply);

  // Told of a call that became a node of what `stream` captures, and that the server has refused.
  using CaptureFailed = void (*)(BasicCall& call, CUstream stream);

  // For Call, which checks: the session is yet to be found.
  BasicCall(const CallInfo& info, bool per_thread_stream, ThreadState& thread)
      : info_(info), thread_(&thread), per_thread_stream_(per_thread_stream), own_record_call_(info.id) {
    ++thread.call_depth;
  }
  // Statistics and traces begin.
  void BeginWatched(Client& client);
  // The failure that an earlier asynchronous call of the thread left, if any, is this call's result.
  CUresult TakeDeferredError();
  // Where the calling thread has no context to use: whether the call can do without, or finds another.
  bool FindContext();
  CUresult NoContext() const;  // 201, or 709 when it is gone
  // It asks about streams and events, and changes none.
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
  uint64_t after_ = 0;   // the last record that concerns what the call names; kept in host functions only
  bool routed_ = false;  // something named belongs to session_
  bool moved_ = false;   // session_ is not that of the thread's current context

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
  // As AsyncAny, if all of `seen` are unchanged when the record gets its place among those of all threads (Session::AppendIf);
  // otherwise Session::kNotAppended: nothing was sent, and the call goes on. Not for calls that free a handle, are captured or
  // wait for their results.
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
  // The next record is one of these.
  template <typename Request>
  BasicCall& As() {
    record_call_ = Request::kId;
    return *this;
  }

  std::span<std::byte> CompleteRecord();
  CUresult SendAsyncWatched(std::span<std::byte> record);
  CUresult SendAsyncIf(std::span<const SeenSequence> seen);
  CUresult SendAndWait(std::span<std::byte> record);
  // A host function makes this call: it is tried past the ring of commands first.
  bool GoesAside(std::span<const std::byte> record) const;
  CUresult RequestAside(std::span<const std::byte> record);
  void NoteSent(uint64_t sequence);

  const bool per_thread_stream_;
  uint32_t own_record_call_;
  uint32_t record_call_ = 0;  // what the next record is, when not 0
  HandleId object_context_;   // of the stream or event that the call names
  HandleId minted_[2];        // no call mints more than two singles; arrays keep theirs in the request
  int minted_count_ = 0;
  uint32_t waits_before_;  // the thread's, when begun_ns_ was set
  uint64_t begun_ns_ = 0;  // while a trace is kept
  uint64_t sequence_ = 0;
  LastSequence* changes_[kChangesMax];
  int changes_count_ = 0;
  bool failed_elsewhere_ = false;
  CUstream capture_stream_ = nullptr;
  CaptureFailed capture_failed_ = nullptr;  // null: the stream is not captured
};

}  // namespace tessera
