// Makes the devices of several servers different in one process. Programs and libraries tell devices apart by PCI address and
// UUID. But two hosts may have GPUs in the same slots, and two servers may have the same GPU. The driver library and the NVML
// library of a process change the same devices in the same way. Pure; any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "protocol/wire/device_snapshot.h"

namespace tessera {

struct DeviceDisguise {
  // Each server of a process has its own PCI domains: those of server n begin at n times this. Domains have 16 bits.
  static constexpr uint32_t kDomainsPerServer = 0x1000;

  // The server's place in the user's list. The devices of the first server stay as they are.
  uint32_t server = 0;
  // UUIDs (DeviceSnapshot::Device::UuidText) of this server that an earlier server has too.
  std::set<std::string> taken_uuids;

  // Changes the PCI domain (also in the bus id) of a later server's device, and its UUID if that is taken.
  void Apply(DeviceSnapshot::Device* device) const;
  // The PCI domain that replaces `domain` of the server.
  uint32_t ShownDomain(uint32_t domain) const { return (domain + server * kDomainsPerServer) & 0xffff; }
};

}  // namespace tessera
