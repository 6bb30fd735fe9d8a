// The attributes of an extended launch (CUlaunchAttribute) as the stub looks at them.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/checksum.h"

namespace tessera {

// A copy in which all bytes that the attribute does not use are zero: applications leave them undefined. An attribute that
// is not known here is copied whole.
CUlaunchAttribute WithoutPadding(const CUlaunchAttribute& attribute);

// The grid is a multiple of the clusters that the attributes ask for.
bool ClustersDivideGrid(std::span<const CUlaunchAttribute> attributes, const unsigned (&grid)[3]);

// A node that kernels change: the launch answers with its device node, in the attribute.
inline bool AsksForDeviceNode(const CUlaunchAttribute& attribute) {
  return attribute.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
}
inline bool AskForDeviceNode(std::span<const CUlaunchAttribute> attributes) {
  return std::any_of(attributes.begin(), attributes.end(), AsksForDeviceNode);
}

// ChecksumOf(), but never 0.
uint64_t HashOf(std::span<const std::byte> bytes, uint64_t hash = kNoBytesChecksum);

}  // namespace tessera
