// One record being executed: what every generated and handwritten server handler is built on.
//
//   void Handle_cuEventRecord(CallContext& call, Decoder& in) {   // generated
//     cuEventRecordRequest request;
//     if (!request.Decode(in)) return call.Malformed();
//     CUevent hEvent = call.Use<CUevent>(request.hEvent);
//     CUstream hStream = call.UseStream(request.hStream);
//     if (!call.ok()) return call.Finish(call.error());
//     call.Finish(call.driver().cuEventRecord(hEvent, hStream));
//   }
//
// Used by the executor thread, or by the helper thread that a blocking call was handed to; never by two at once.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <type_traits>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"
#include "protocol/wire/record.h"

namespace tessera {

struct DriverTable;  // generated: one member `decltype(&cuX) cuX` per export, null where the driver lacks it
class Worker;        // worker.h: owns tables, rings, threads of one session

class CallContext {
 public:
  CallContext(Worker& worker, const RecordHeader& header);

  Worker& worker() { return worker_; }
  const RecordHeader& header() const { return header_; }
  const DriverTable& driver() const;
  // The context that owns memory made by this call: the current one, or behind a green one the primary.
  HandleId holder() const;
  bool wants_reply() const { return (header_.flags & kWantsReply) != 0; }

  bool ok() const { return error_ == CUDA_SUCCESS; }
  CUresult error() const { return error_; }
  void Fail(CUresult error) {
    if (error_ == CUDA_SUCCESS) error_ = error;
  }

  // The driver's object behind a handle; an unknown one, or one of another kind than T, fails the call with the kind's
  // code and gives T{}. A zero handle gives T{} without failure (the client has checked where null is legal).
  // CUfunction is also what a kernel handle may be used as.
  template <typename T>
  T Use(HandleId id) {
    return T(Lookup(id, KindOf<T>()));
  }
  // As Use; 0, 1 and 2 are the special streams: 0 with the record's flag kPerThreadStream, and 2, yield the real stream
  // that stands for the calling client thread in its current context.
  CUstream UseStream(HandleId id);
  // Enters / removes an object. New() is called only after the driver succeeded.
  template <typename T>
  void New(HandleId id, T object) {
    Insert(id, uint64_t(object));
  }
  void Free(HandleId id);
  // The handle of an object the driver returned: an earlier New, else minted here. Null gives a zero handle.
  template <typename T>
  HandleId Known(HandleKind kind, T object) {
    return KnownValue(kind, uint64_t(object));
  }

  // Memory that lives until the call is finished (arrays of handles, output arrays). Null and a failed call when more
  // than the bound on one call's scratch (kScratchBytesMax) is asked for.
  void* Scratch(size_t bytes);
  template <typename T>
  T* ScratchArray(size_t count) {
    return static_cast<T*>(Scratch(count * sizeof(T)));
  }

  // Exactly one of these ends the call. A failure of a call without reply becomes a deferred error of the session.
  void Finish(CUresult result);
  template <typename Reply>
  void Finish(CUresult result, const Reply& reply) {
    if (!wants_reply()) return Finish(result);
    Encoder& encoder = BeginReply();
    if (result == CUDA_SUCCESS) reply.Encode(encoder);
    SendReply(result);
  }
  // The record was not what a correct client sends: the session ends with a protocol violation.
  void Malformed();
  // Lets another thread end the call later (completion of GPU work): takes what is needed to reply. The executor goes on.
  class Deferred;
  Deferred Defer();

 private:
  // The kind of handle whose objects have this C type; kNone for a type that says nothing (every kind is taken).
  template <typename T>
  static constexpr HandleKind KindOf();
  uint64_t Lookup(HandleId id, HandleKind kind);
  void Insert(HandleId id, uint64_t object);
  HandleId KnownValue(HandleKind kind, uint64_t object);
  Encoder& BeginReply();
  void SendReply(CUresult result);

  Worker& worker_;
  const RecordHeader header_;
  CUresult error_ = CUDA_SUCCESS;
};

template <typename T>
constexpr HandleKind CallContext::KindOf() {
  if constexpr (std::is_same_v<T, CUcontext>) return HandleKind::kContext;
  if constexpr (std::is_same_v<T, CUmodule>) return HandleKind::kModule;
  if constexpr (std::is_same_v<T, CUfunction>) return HandleKind::kFunction;
  if constexpr (std::is_same_v<T, CUlibrary>) return HandleKind::kLibrary;
  if constexpr (std::is_same_v<T, CUkernel>) return HandleKind::kKernel;
  if constexpr (std::is_same_v<T, CUstream>) return HandleKind::kStream;
  if constexpr (std::is_same_v<T, CUevent>) return HandleKind::kEvent;
  if constexpr (std::is_same_v<T, CUgraph>) return HandleKind::kGraph;
  if constexpr (std::is_same_v<T, CUgraphNode>) return HandleKind::kGraphNode;
  if constexpr (std::is_same_v<T, CUgraphExec>) return HandleKind::kGraphExec;
  if constexpr (std::is_same_v<T, CUmemoryPool>) return HandleKind::kMemoryPool;
  if constexpr (std::is_same_v<T, CUarray>) return HandleKind::kArray;
  if constexpr (std::is_same_v<T, CUmipmappedArray>) return HandleKind::kMipmappedArray;
  if constexpr (std::is_same_v<T, CUtexref>) return HandleKind::kTextureReference;
  if constexpr (std::is_same_v<T, CUsurfref>) return HandleKind::kSurfaceReference;
  if constexpr (std::is_same_v<T, CUlinkState>) return HandleKind::kLinkState;
  if constexpr (std::is_same_v<T, CUmemGenericAllocationHandle>) return HandleKind::kMemoryAllocation;
  if constexpr (std::is_same_v<T, CUuserObject>) return HandleKind::kUserObject;
  if constexpr (std::is_same_v<T, CUexternalMemory>) return HandleKind::kExternalMemory;
  if constexpr (std::is_same_v<T, CUexternalSemaphore>) return HandleKind::kExternalSemaphore;
  if constexpr (std::is_same_v<T, CUgreenCtx>) return HandleKind::kGreenContext;
  if constexpr (std::is_same_v<T, CUdevResourceDesc>) return HandleKind::kResourceDescriptor;
  if constexpr (std::is_same_v<T, CUgraphDeviceNode>) return HandleKind::kGraphDeviceNode;
  return HandleKind::kNone;
}

// The ability to answer one record from another thread, once.
class CallContext::Deferred {
 public:
  Deferred(Worker& worker, const RecordHeader& header) : worker_(&worker), header_(header) {}
  void Finish(CUresult result);
  // `payload` is an encoded reply message.
  void Finish(CUresult result, std::span<const std::byte> payload);
  const RecordHeader& header() const { return header_; }

 private:
  Worker* worker_;
  RecordHeader header_;
};

}  // namespace tessera
