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
    if (event != nullptr) *event = call.Use<CUevent>(HandleId(reinterpret_cast<uint64_t>(*event)));
  }
  if (!call.ok()) {
    call.Finish(call.error());
    return false;
  }
  return true;
}

std::vector<uint64_t> LaunchAttributes::DeviceNodes() const {
  std::vector<uint64_t> nodes;
  for (const CUlaunchAttribute& attribute : attributes_) {
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) continue;
    nodes.push_back(reinterpret_cast<uint64_t>(attribute.value.deviceUpdatableKernelNode.devNode));
  }
  return nodes;
}

}  // namespace tessera
