// What keeps the devices of several servers apart in one process: two hosts have their GPUs in the same slots, and two servers
// may have the same GPU. Programs and libraries tell devices apart by PCI address and UUID, so no two may have the same ones.
// The driver library and the NVML library of a process change the same devices in the same way. Pure; any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "protocol/wire/device_snapshot.h"

namespace tessera {

struct DeviceDisguise {
  // Servers of a process have PCI domains of their own: those of server number n begin at n times this. Domains have 16 bits.
  static constexpr uint32_t kDomainsPerServer = 0x1000;

  // The server's place in the list that the user gave. The first one's devices keep everything.
  uint32_t server = 0;
  // UUIDs (DeviceSnapshot::Device::UuidText) of this server that an earlier one has as well.
  std::set<std::string> taken_uuids;

  // Changes what has to be: the PCI domain of devices of later servers, in the bus id too, and UUIDs that are taken.
  void Apply(DeviceSnapshot::Device* device) const;
  // The PCI domain that stands here for one of the server's.
  uint32_t ShownDomain(uint32_t domain) const { return (domain + server * kDomainsPerServer) & 0xffff; }
};

}  // namespace tessera
