// The devices that this library describes: those of the servers that the client library would use, in their order.
//
// A server is asked by a query (protocol/channel/query_server.h). It begins no session there and initialises nothing in this
// process. So programs that count devices through NVML and then fork keep working.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client-stub/process/config.h"
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
  size_t server = 0;  // which of DeviceList::servers has it
  size_t number = 0;  // the server's number for it
};

// Whether a device reaches the memory of another one, and whether its atomic operations do.
struct PeerAccess {
  bool memory = false;
  bool atomics = false;
};

struct DeviceList {
  std::vector<Device> devices;
  std::vector<PeerAccess> peers;  // element from * devices + to; what it says of a device and itself means nothing
  int driver_version = 0;         // as cuDriverGetVersion tells it (13000); the lowest of all servers
  std::vector<ServerList::Server> servers;

  // The first device of the server that has `device`. The devices of a server follow one another.
  size_t FirstOfServer(size_t device) const { return device - devices[device].number; }
};

// Asks the servers that TESSERA_SERVER names for their devices. Error: that of the first server that cannot be asked;
// kInvalidArgument if the setting is wrong. Any thread.
Result<DeviceList> ReadDevices();

// What a server tells of its devices at one moment (ServerReport). The question decides which fields are filled in. Devices are
// numbered as in the list. Nothing is said of other servers' devices.
struct DeviceState {
  uint64_t read_ns = 0;  // MonotonicNs
  std::string driver_release;
  std::vector<std::map<Reading, uint64_t>> readings;  // of each device; ends with the server's last one
  std::map<Reading, std::string> texts;
  std::vector<ServerReport::FieldValue> fields;
  std::vector<ServerReport::Use> uses;
  std::vector<ServerReport::Session> sessions;  // those of the holder who asks; an administrator gets all
};
// Asks the server that has `device`, which is an index of the list. `ask` and `fields` are as in ServerQuery. It waits for the
// server. Error: the server cannot be asked. Any thread.
Result<DeviceState> ReadState(const DeviceList& list, ServerQuery::Ask ask, size_t device,
                              std::vector<ServerQuery::Field> fields = {});

}  // namespace tessera::nvml
