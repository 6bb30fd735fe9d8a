// The devices that the shim describes: those of the servers that the client library would use, in their order.
//
// A server is asked by a query (protocol/channel/query_server.h), which begins no session there and initialises nothing
// in this process: programs that count devices through NVML and fork afterwards keep working.
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
  size_t server = 0;  // whose it is, of DeviceList::servers
  size_t number = 0;  // the server's number for it
};

// Whether a device reaches the memory of another one, and whether atomics do.
struct PeerAccess {
  bool memory = false;
  bool atomics = false;
};

struct DeviceList {
  std::vector<Device> devices;
  std::vector<PeerAccess> peers;  // element from * devices + to; of a device with itself nothing is said
  int driver_version = 0;         // as cuDriverGetVersion: 13000; of several servers the lowest
  std::vector<ServerList::Server> servers;

  // The devices of a server follow each other: the first one of the server that has `device`.
  size_t FirstOfServer(size_t device) const { return device - devices[device].number; }
};

// Asks the servers named by TESSERA_SERVER what they have. Any thread.
Result<DeviceList> ReadDevices();

// What a server tells of its devices at a moment (ServerReport): which of it is there depends on the question. Devices have
// their numbers of the list; of those of other servers nothing is said.
struct DeviceState {
  uint64_t read_ns = 0;  // MonotonicNs
  std::string driver_release;
  std::vector<std::map<Reading, uint64_t>> readings;  // per device
  std::map<Reading, std::string> texts;
  std::vector<ServerReport::FieldValue> fields;
  std::vector<ServerReport::Use> uses;
  std::vector<ServerReport::Session> sessions;  // of this asker's holder; all to an administrator
};
// Asks the server that has `device`; it and `fields` as in ServerQuery.
Result<DeviceState> ReadState(const DeviceList& list, ServerQuery::Ask ask, size_t device,
                              std::vector<ServerQuery::Field> fields = {});

}  // namespace tessera::nvml
