#include "client-stub/memory/host_location.h"

#include <unistd.h>

#include <string>

namespace tessera {

bool IsHostLocation(const CUmemLocation& location) {
  return IsNodeOrHost(location) || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

bool IsNodeOrHost(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

bool IsNode(int node) {
  if (node == 0) return true;
  return node > 0 && access(("/sys/devices/system/node/node" + std::to_string(node)).c_str(), F_OK) == 0;
}

bool IsAccess(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

}  // namespace tessera
