#include "client-stub/code/launch_attributes.h"

#include <cstring>

namespace tessera {
namespace {

// How much of the union the attribute uses, from its start.
size_t ValueBytes(CUlaunchAttributeID id) {
  using Value = CUlaunchAttributeValue;
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE: return 0;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: return sizeof(Value::accessPolicyWindow);
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: return sizeof(Value::cooperative);
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: return sizeof(Value::syncPolicy);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: return sizeof(Value::clusterDim);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return sizeof(Value::clusterSchedulingPolicyPreference);
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: return sizeof(Value::programmaticStreamSerializationAllowed);
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: return sizeof(Value::programmaticEvent);
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: return sizeof(Value::priority);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: return sizeof(Value::memSyncDomainMap);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return sizeof(Value::memSyncDomain);
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: return sizeof(Value::preferredClusterDim);
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return offsetof(Value, launchCompletionEvent.flags) + sizeof(Value::launchCompletionEvent.flags);
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return sizeof(Value::sharedMemCarveout);
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING: return sizeof(Value::nvlinkUtilCentricScheduling);
    default: return sizeof(Value);
  }
}

bool Divides(const CUlaunchAttribute& attribute, const unsigned (&grid)[3]) {
  const auto& cluster = attribute.value.clusterDim;  // the preferred dimension has the same layout
  const unsigned sizes[] = {cluster.x, cluster.y, cluster.z};
  for (int i = 0; i < 3; ++i) {
    if (sizes[i] == 0 || grid[i] % sizes[i] != 0) return false;
  }
  return true;
}

}  // namespace

CUlaunchAttribute WithoutPadding(const CUlaunchAttribute& attribute) {
  CUlaunchAttribute copy;
  std::memset(&copy, 0, sizeof(copy));
  copy.id = attribute.id;
  if (AsksForDeviceNode(attribute)) {  // with a hole in the middle
    copy.value.deviceUpdatableKernelNode.deviceUpdatable = attribute.value.deviceUpdatableKernelNode.deviceUpdatable;
    copy.value.deviceUpdatableKernelNode.devNode = attribute.value.deviceUpdatableKernelNode.devNode;
    return copy;
  }
  std::memcpy(&copy.value, &attribute.value, ValueBytes(attribute.id));
  return copy;
}

bool ClustersDivideGrid(std::span<const CUlaunchAttribute> attributes, const unsigned (&grid)[3]) {
  for (const CUlaunchAttribute& attribute : attributes) {
    const bool cluster =
        attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || attribute.id == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
    if (cluster && !Divides(attribute, grid)) return false;
  }
  return true;
}

uint64_t HashOf(std::span<const std::byte> bytes, uint64_t hash) { return ChecksumOf(bytes, hash) | 1; }

}  // namespace tessera
