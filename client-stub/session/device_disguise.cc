#include "client-stub/session/device_disguise.h"

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

namespace tessera {

void DeviceDisguise::Apply(DeviceSnapshot::Device* device) const {
  if (server == 0) return;
  if (taken_uuids.contains(device->UuidText())) {
    device->uuid[0] ^= static_cast<uint8_t>(server);
    device->uuid_v2[0] ^= static_cast<uint8_t>(server);
  }
  if (device->attributes.size() > CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) {
    DeviceSnapshot::Answer& domain = device->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID];
    const uint32_t shown = ShownDomain(static_cast<uint32_t>(domain.value));
    if (domain.result == CUDA_SUCCESS) domain.value = static_cast<int32_t>(shown);
  }
  const size_t colon = device->pci_bus_id.find(':');
  if (colon == std::string::npos) return;
  const uint32_t domain = ShownDomain(static_cast<uint32_t>(std::strtoul(device->pci_bus_id.c_str(), nullptr, 16)));
  char text[16];
  std::snprintf(text, sizeof(text), "%04x", static_cast<unsigned>(domain));
  device->pci_bus_id.replace(0, colon, text);
}

}  // namespace tessera
