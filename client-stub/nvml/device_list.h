// The devices that the shim describes: those of the server that the client library would use.
//
// The server is asked by a query (protocol/channel/query_server.h), which begins no session there and initialises nothing
// in this process: programs that count devices through NVML and fork afterwards keep working.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/server_query.h"

namespace tessera::nvml {

struct Device {
  std::string name;
  std::string uuid;  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  unsigned pci_domain = 0;
  unsigned pci_bus = 0;
  unsigned pci_device = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  unsigned memory_bus_bits = 0;
  uint64_t total_bytes = 0;
};

struct DeviceList {
  std::vector<Device> devices;
  int driver_version = 0;  // as cuDriverGetVersion: 13000
};

// Asks the server named by TESSERA_SERVER what it has. Any thread.
Result<DeviceList> ReadDevices();

// How the devices are now: what a report says of each (ServerReport::readings), and who uses them.
struct DeviceState {
  uint64_t read_ns = 0;  // MonotonicNs
  std::string driver_release;
  std::vector<std::map<Reading, uint64_t>> readings;  // per device
  std::vector<ServerReport::Use> uses;
};
Result<DeviceState> ReadState();

}  // namespace tessera::nvml
