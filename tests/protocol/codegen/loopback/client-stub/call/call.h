// Stands in for client-stub/call/call.h: the same interface, but a record goes straight to the generated handler in this
// process (loopback.cc). For loopback_test alone.
#pragma once

#include <cuda.h>

#include <map>
#include <vector>

#include "client-stub/process/call_info.h"
#include "protocol/runtime/touches.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"

namespace tessera {

// As if the process had several servers: entries say first what they name.
inline bool several = false;
inline bool SeveralServers() { return several; }

class Call {
 public:
  Call(const CallInfo& info, bool per_thread) : info_(info), per_thread_(per_thread) {}

  bool ok() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  CUresult Fail(CUresult result) { return result_ = result; }
  const CallInfo& info() const { return info_; }

  void RouteToHandle(const void* handle) { routed.push_back(reinterpret_cast<uint64_t>(handle)); }
  static inline std::vector<uint64_t> routed;

  HandleId Use(HandleKind kind, const void* handle, bool nullable = false, int error = 0);
  HandleId UseStream(CUstream stream) { return HandleId(reinterpret_cast<uint64_t>(stream)); }
  HandleId Free(HandleKind kind, const void* handle, bool nullable = false, int error = 0);
  HandleId Mint(HandleKind kind);
  void Adopt(HandleId id) { live[id.value()] = id.kind(); }

  template <TouchesNothing Request>
  CUresult Async(const Request& request) {
    return AsyncAny(request);
  }
  template <typename Request>
  CUresult AsyncAny(const Request& request) {
    Encoder encoder;
    request.Encode(encoder);
    Send(encoder, false);
    return CUDA_SUCCESS;
  }
  template <TouchesNothing Request>
  CUresult Sync(const Request& request) {
    Encoder encoder;
    request.Encode(encoder);
    return Send(encoder, true);
  }
  template <TouchesNothing Request, typename Reply>
  CUresult Sync(const Request& request, Reply* reply) {
    const CUresult result = Sync(request);
    if (result != CUDA_SUCCESS) return result;
    Decoder decoder(reply_bytes);
    return reply->Decode(decoder) && decoder.AtEnd() ? result : MalformedReply();
  }
  CUresult MalformedReply() { return CUDA_ERROR_ILLEGAL_STATE; }

  // What the test looks at, and what a hostile server would do.
  static inline std::map<uint64_t, HandleKind> live;
  static inline std::vector<std::byte> reply_bytes;
  static inline void (*spoil_reply)(std::vector<std::byte>& bytes) = nullptr;

 private:
  CUresult Send(const Encoder& encoder, bool wants_reply);

  const CallInfo& info_;
  const bool per_thread_;
  CUresult result_ = CUDA_SUCCESS;
};

CUresult Unsupported(const CallInfo& info);

}  // namespace tessera
