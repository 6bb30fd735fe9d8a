// Core dumps of the GPU: see coredump_settings.h.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/process/coredump_settings.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "generated/client/entry.h"

namespace tessera {
namespace {

// The number of the current context. 0 and a failed call: there is none, or contexts do not have the attribute.
uint64_t ContextWith(Call& call, CUcoredumpSettings attribute) {
  if (!call.ok()) return 0;
  const Context* context = call.thread().current();
  if (!CoredumpSettings::IsAttribute(attribute)) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
  } else if (context == nullptr || !context->active()) {
    call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  } else if (!CoredumpSettings::IsOfContexts(attribute)) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
  } else {
    return context->number.load(std::memory_order_relaxed);
  }
  return 0;
}

}  // namespace

CUresult Custom_cuCoredumpGetAttribute(Call& call, CUcoredumpSettings attrib, void* value, size_t* size) {
  const uint64_t context = ContextWith(call, attrib);
  return call.ok() ? call.Fail(CoredumpSettings::Process().Get(context, attrib, value, size)) : call.result();
}

CUresult Custom_cuCoredumpSetAttribute(Call& call, CUcoredumpSettings attrib, void* value, size_t* size) {
  const uint64_t context = ContextWith(call, attrib);
  return call.ok() ? call.Fail(CoredumpSettings::Process().Set(context, attrib, value, size)) : call.result();
}

CUresult Custom_cuCoredumpGetAttributeGlobal(Call& call, CUcoredumpSettings attrib, void* value, size_t* size) {
  if (!call.ok()) return call.result();
  return call.Fail(CoredumpSettings::Process().Get(0, attrib, value, size));
}

CUresult Custom_cuCoredumpSetAttributeGlobal(Call& call, CUcoredumpSettings attrib, void* value, size_t* size) {
  if (!call.ok()) return call.result();
  return call.Fail(CoredumpSettings::Process().Set(0, attrib, value, size));
}

}  // namespace tessera
