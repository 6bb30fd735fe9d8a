// The part of libnvidia-ml.so.1 about pairs of devices: whether they reach each other, and over what.

#include <algorithm>

#include "client-stub/nvml/give.h"
#include "client-stub/nvml/nvml_abi.h"

namespace {

using tessera::Reading;
using tessera::nvml::Device;
using tessera::nvml::Find;
using tessera::nvml::Found;
using tessera::nvml::Give;
using tessera::nvml::HandleOf;
using tessera::nvml::PeerAccess;
using AskFor = tessera::ServerQuery::Ask;

struct Pair {
  Found from;
  Found to;
  bool neighbours = false;  // on one server
};
nvmlReturn_t FindPair(nvmlDevice_t handle, nvmlDevice_t other, Pair* pair) {
  if (const nvmlReturn_t result = Find(handle, &pair->from); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = Find(other, &pair->to); result != NVML_SUCCESS) return result;
  // Another thread may have initialised the library anew between the two look-ups.
  if (pair->from.list != pair->to.list) return NVML_ERROR_INVALID_ARGUMENT;
  pair->neighbours = pair->from.device->server == pair->to.device->server;
  return NVML_SUCCESS;
}

}  // namespace

// The driver's attributes of the pair tell access; the server's NVML tells links. NCCL asks for every pair, and gives up if one
// has no answer.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t handle, nvmlDevice_t other, unsigned what, unsigned* status) {
  constexpr unsigned kRead = 0, kWrite = 1, kNvLink = 2, kAtomics = 3, kWhatEnd = 5;
  constexpr unsigned kOk = 0, kNotSupported = 5;
  Pair pair;
  if (const nvmlReturn_t result = FindPair(handle, other, &pair); result != NVML_SUCCESS) return result;
  if (status == nullptr || what >= kWhatEnd) return NVML_ERROR_INVALID_ARGUMENT;
  const PeerAccess& access = pair.from.list->peers[pair.from.index * pair.from.list->devices.size() + pair.to.index];
  if (pair.from.index == pair.to.index) {
    *status = kOk;
  } else if (!pair.neighbours) {
    *status = kNotSupported;
  } else if (what == kRead || what == kWrite) {
    *status = access.memory ? kOk : kNotSupported;
  } else if (what == kAtomics) {
    *status = access.atomics ? kOk : kNotSupported;
  } else {
    const Reading first = what == kNvLink ? Reading::kPeerStatusNvLink : Reading::kPeerStatusPci;
    return Give(handle, AskFor::kLinks, first + static_cast<uint32_t>(pair.to.device->number), status);
  }
  return NVML_SUCCESS;
}

// Devices of two servers are NVML_ERROR_NOT_SUPPORTED, since nothing tells how their machines are connected.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t handle, nvmlDevice_t other, unsigned* level) {
  Pair pair;
  if (const nvmlReturn_t result = FindPair(handle, other, &pair); result != NVML_SUCCESS) return result;
  if (level == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (!pair.neighbours) return NVML_ERROR_NOT_SUPPORTED;
  return Give(handle, AskFor::kLinks, Reading::kCommonAncestor + static_cast<uint32_t>(pair.to.device->number), level);
}

// Lists devices of the same server only. With a count of 0 it tells how many there are.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t handle, unsigned level, unsigned* count,
                                                          nvmlDevice_t* devices) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  const unsigned place = level / tessera::kTopologyLevelStep;
  if (level % tessera::kTopologyLevelStep != 0 || place >= tessera::kTopologyLevels) return NVML_ERROR_INVALID_ARGUMENT;
  if (count == nullptr || (*count != 0 && devices == nullptr)) return NVML_ERROR_INVALID_ARGUMENT;
  uint64_t numbers = 0;
  const nvmlReturn_t result = Give(handle, AskFor::kLinks, Reading::kNearestDevices + place, &numbers);
  if (result != NVML_SUCCESS) return result;
  unsigned matching = 0;
  for (size_t i = 0; i < found.list->devices.size(); ++i) {
    const Device& device = found.list->devices[i];
    if (device.server != found.device->server || (numbers >> device.number & 1) == 0) continue;
    if (matching < *count) devices[matching] = HandleOf(i);
    ++matching;
  }
  *count = *count == 0 ? matching : std::min(*count, matching);
  return NVML_SUCCESS;
}
