#include "client-stub/call/call.h"
#include "generated/server/dispatch.h"
#include "protocol/base/check.h"
#include "server/worker/call_context.h"

namespace tessera {

HandleId Call::Use(HandleKind kind, const void* handle, bool nullable, int error) {
  const auto found = live.find(reinterpret_cast<uint64_t>(handle));
  if (handle == nullptr && nullable) return HandleId();
  if (found == live.end() || found->second != kind) {
    Fail(error != 0 ? static_cast<CUresult>(error) : CUDA_ERROR_INVALID_HANDLE);
    return HandleId();
  }
  return HandleId(found->first);
}

HandleId Call::Free(HandleKind kind, const void* handle, bool nullable, int error) {
  const HandleId id = Use(kind, handle, nullable, error);
  live.erase(id.value());
  return id;
}

HandleId Call::Mint(HandleKind kind) {
  static uint32_t slot = 0;
  const HandleId id = HandleId::Of(0, kind, 0, ++slot);
  live[id.value()] = kind;
  return id;
}

CUresult Call::Send(const Encoder& encoder, bool wants_reply) {
  CallContext context(per_thread_);
  Decoder decoder(encoder.bytes());
  Dispatch(info_.id, context, decoder);
  CHECK(context.ends == 1);
  CHECK(!context.malformed);
  reply_bytes = context.reply;
  if (spoil_reply != nullptr) spoil_reply(reply_bytes);
  return wants_reply ? context.result : CUDA_SUCCESS;
}

CUresult Unsupported(const CallInfo& info) { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace tessera
