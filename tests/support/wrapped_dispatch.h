// For tests that see every record of a worker in their own process. The linker sends the worker's calls of Dispatch()
// (generated/server/dispatch.h) to WrappedDispatch(), which the test defines, where the test is linked with
//   -Wl,--wrap=_ZN7tessera8DispatchEjRNS_11CallContextERNS_7DecoderE
// Called by the worker's threads; to call RealDispatch() is the test's to do.
#pragma once

#include <cstdint>

#include "protocol/wire/decoder.h"
#include "server/worker/call_context.h"

namespace tessera {

extern "C" void RealDispatch(uint32_t id, CallContext& call,
                             Decoder& in) asm("__real__ZN7tessera8DispatchEjRNS_11CallContextERNS_7DecoderE");
extern "C" void WrappedDispatch(uint32_t id, CallContext& call,
                                Decoder& in) asm("__wrap__ZN7tessera8DispatchEjRNS_11CallContextERNS_7DecoderE");

}  // namespace tessera
