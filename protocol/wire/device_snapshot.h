// Describes the server's devices to a client when a session begins (ServerWelcome::snapshot), so that device queries need no
// round trip. The worker fills it in with the driver's own answers, unfiltered. The stub decides which of them a forwarded
// program may see. Numbers of attributes and limits are those of cuda.h. Plain values; one thread at a time.
//
//   worker: DeviceSnapshot snapshot; ...; Encoder out; snapshot.Encode(out); welcome.snapshot = out.bytes();
//   stub:   Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(welcome.snapshot);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/encoder.h"

namespace tessera {

struct DeviceSnapshot {
  // Decode() enforces these bounds.
  static constexpr size_t kDevicesMax = 64;
  static constexpr size_t kAnswersMax = 512;  // attributes per device; CUDA 13.0 has about 150
  static constexpr size_t kTextBytesMax = 256;

  // The driver's answer to one query: a CUresult and, on success, the value.
  struct Answer {
    int32_t result = 0;
    int32_t value = 0;
    friend bool operator==(const Answer&, const Answer&) = default;
  };

  struct Device {
    std::string name;          // cuDeviceGetName
    uint8_t uuid[16] = {};     // cuDeviceGetUuid
    uint8_t uuid_v2[16] = {};  // cuDeviceGetUuid_v2
    uint64_t total_bytes = 0;  // cuDeviceTotalMem_v2
    std::string pci_bus_id;    // cuDeviceGetPCIBusId: "0000:02:00.0"
    int32_t luid_result = 0;   // cuDeviceGetLuid
    uint8_t luid[8] = {};
    uint32_t luid_node_mask = 0;
    // cuCtxGetStreamPriorityRange of a context on the device.
    int32_t least_stream_priority = 0;
    int32_t greatest_stream_priority = 0;
    // Element i: cuDeviceGetAttribute of attribute i; element 0 is unused. It has all attributes of the worker's cuda.h.
    std::vector<Answer> attributes;

    // The UUID as NVIDIA's tools write it: "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".
    std::string UuidText() const;
    // The NUMA node of the host that is nearest to the device (CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID); -1: the driver did not say.
    int32_t HostNuma() const;
  };

  int32_t driver_version = 0;  // cuDriverGetVersion
  // The list of devices that the server applied. If it differs from ClientHello::devices, the client refuses the session: it
  // would use another device than the user said.
  std::string selection;
  std::vector<Device> devices;  // in the order of their ordinals, which are the same on both sides
  // cuDeviceGetP2PAttribute for attributes 1..p2p_attributes: element ((from * devices) + to) * p2p_attributes + (a -
  // 1). Elements with from == to are unused.
  uint32_t p2p_attributes = 0;
  std::vector<Answer> p2p;

  // A copy with only the devices of these numbers, in this order. Ignores numbers of devices that do not exist.
  DeviceSnapshot Only(std::span<const uint32_t> numbers) const;

  void Encode(Encoder& out) const;
  // kProtocolViolation: no correct server sends such bytes.
  static Result<DeviceSnapshot> Decode(std::span<const std::byte> bytes);
};

}  // namespace tessera
