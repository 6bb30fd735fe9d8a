// What tells the streams of a session apart as long as the worker remembers something of one.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <utility>

#include "protocol/wire/handle.h"
#include "server/worker/call_context.h"

namespace tessera {

// By the client's handle; special streams: by the client's thread (legacy: 0) and context. The driver's own may return.
using StreamKey = std::pair<uint64_t, uint64_t>;

// `stream` is what the call made of `id`.
inline StreamKey KeyOfStream(CallContext& call, HandleId id, CUstream stream) {
  if (id.value() > reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD)) return {id.value(), 0};
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  return {legacy ? 0 : call.header().thread, call.header().context};
}

}  // namespace tessera
