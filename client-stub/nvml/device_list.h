// The devices that the shim describes: those of the server that the client library would use.
//
// The shim opens a session only to read the server's description of its devices and leaves again at once. It never
// initialises CUDA in this process, so that programs which count devices through NVML and fork afterwards keep working.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera::nvml {

struct Device {
  std::string name;
  std::string uuid;  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  unsigned pci_domain = 0;
  unsigned pci_bus = 0;
  unsigned pci_device = 0;
  int compute_major = 0;
  int compute_minor = 0;
};

struct DeviceList {
  std::vector<Device> devices;
  int driver_version = 0;  // as cuDriverGetVersion: 13000
};

// Asks the server named by TESSERA_SERVER. Any thread.
Result<DeviceList> ReadDevices();

}  // namespace tessera::nvml
