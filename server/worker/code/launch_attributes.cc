#include "server/worker/code/launch_attributes.h"

#include <cstring>

#include "server/worker/call_context.h"

namespace tessera {

bool LaunchAttributes::Set(CallContext& call, std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(CUlaunchAttribute) != 0 || bytes.size() / sizeof(CUlaunchAttribute) > kCountMax) {
    call.Malformed();
    return false;
  }
  attributes_.resize(bytes.size() / sizeof(CUlaunchAttribute));
  if (!bytes.empty()) std::memcpy(attributes_.data(), bytes.data(), bytes.size());
  for (CUlaunchAttribute& attribute : attributes_) {
    CUevent* event = nullptr;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) event = &attribute.value.programmaticEvent.event;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) event = &attribute.value.launchCompletionEvent.event;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) {
      call.Finish(CUDA_ERROR_NOT_SUPPORTED);  // hands out a device-side node; the client refuses it before
      return false;
    }
    if (event != nullptr) *event = call.Use<CUevent>(HandleId(reinterpret_cast<uint64_t>(*event)));
  }
  if (!call.ok()) {
    call.Finish(call.error());
    return false;
  }
  return true;
}

}  // namespace tessera
